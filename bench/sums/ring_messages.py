"""What one member of a ring receives from the coordinator, and its processor time, by the number of members.

    python -m bench.sums.ring_messages --members 1000 2000 5000 10000

One member is real, with its checks; what the others advertise and sign is made with keys of their own. A twentieth of
the members may collude and a tenth drops out; the vector has 10,000 elements. Bytes are those of the messages on the
wire; times are of one thread, and leave out reading the record.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from bench.machine import describe_machine
from entropy import SystemEntropy
from mpc.secagg.config import RosterEntry, RoundConfig, Topology, input_digest
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.graph import draw_graph
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.member import SumMember
from mpc.secagg.member.held_shares import SHARE_KIND
from mpc.secagg.messages import (
    Advertisement,
    NeighbourList,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    seed_digest,
    survivor_digest,
)
from mpc.secagg.secret.keys import IdentityKey, RoundKey, SealedChannel
from mpc.secagg.secret.secret_sharing import SHARE_BYTES
from mpc.secagg.simulation import pinning_policy
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId
from transport.sum_codec import Invitation, ToMembers, encode_to_member

ELEMENTS = 10_000
ME = 1

T = TypeVar("T")


class Timed:
    """Processor seconds of the member's steps, and bytes of its messages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, int] = {}

    def step(self, name: str, message: ToMembers | None, work: Callable[[], T]) -> T:
        """Run one step of the member."""
        if message is not None:
            self.bytes[name] = encode_to_member(message).ByteSize()
        before = time.process_time()
        result = work()
        self.seconds[name] = time.process_time() - before
        return result


def measure(n_members: int) -> dict[str, Any]:
    """Take one member of a round of `n_members` through its stages."""
    entropy, members = SystemEntropy(), range(1, n_members + 1)
    identities = {m: IdentityKey(entropy) for m in members}
    roster = tuple(RosterEntry(m, f"member-{m:05}", identities[m].public_bytes) for m in members)
    topology = Topology.ring(n_members, n_members // 20, n_members // 10)
    round_id = RoundId("bench", 0, 0)
    config = RoundConfig(round_id, roster, topology, RingGroup(32), "sum", VectorEncoding(ELEMENTS, 1000.0))
    policy = replace(pinning_policy(config), corrupt_fraction=topology.n_corrupt / n_members)
    timed = Timed()

    def entered() -> SumMember:
        return SumMember(
            config,
            ME,
            identity=identities[ME],
            policy=policy,
            journal=MemoryJournal(),
            public_input=b"",
            entropy=entropy,
        )

    member = timed.step("invitation", Invitation(round_id, roster, b""), entered)
    channel_keys = {m: RoundKey(entropy.read(32)) for m in members}
    coordinator = SumCoordinator(config, b"")
    for m in members:
        coordinator.receive(member.advertise() if m == ME else _advertised(config, m, identities[m], channel_keys[m]))
    shown = coordinator.close_advertising()[ME]
    assert isinstance(shown, NeighbourList)
    sealed = timed.step("neighbours", shown, lambda: member.share_keys(shown))
    transcript = sealed.transcript
    mine = next(ad for ad in shown.advertisements if ad.member == ME).channel_public
    near = draw_graph(n_members, topology.degree, round_id, transcript).neighbours(ME)
    channels = {
        m: SealedChannel(channel_keys[m], mine, transcript=transcript, round_id=round_id, me=m, them=ME) for m in near
    }
    shares = {m: channel.seal(SHARE_KIND, bytes(2 * SHARE_BYTES)) for m, channel in channels.items()}
    delivery = ShareDelivery(round_id, tuple(members), dict.fromkeys(near, transcript), shares)
    timed.step("shares", delivery, lambda: member.mask_input(delivery, np.zeros(ELEMENTS, dtype=np.int64)))
    gone = set(range(10, n_members + 1, 10))
    survivors = SurvivorList(round_id, tuple(m for m in members if m not in gone))
    timed.step("survivors", survivors, lambda: member.sign_survivors(survivors))
    set_digest = survivor_digest(transcript, delivery.sharers, survivors.survivors)
    signers = survivors.survivors[: topology.n_signatures]
    signed = SignedSurvivors(round_id, tuple(_signed(round_id, m, set_digest, identities[m]) for m in signers))
    timed.step("signatures", signed, lambda: member.unmask(signed))
    return {
        "members": n_members,
        "neighbours": topology.degree,
        "bytes": timed.bytes,
        "received_bytes": sum(timed.bytes.values()),
        "coordinator_sends_bytes": n_members * sum(timed.bytes.values()),
        "seconds": timed.seconds,
        "processor_s": sum(timed.seconds.values()),
    }


def _advertised(config: RoundConfig, member: int, identity: IdentityKey, channel_key: RoundKey) -> Advertisement:
    commitment = seed_digest(config.round_id, member, bytes(32))
    keys = channel_key.public_bytes, channel_key.public_bytes
    inputs = input_digest(config.round_id, b"")
    unsigned = Advertisement(config.round_id, member, *keys, commitment, b"", config.digest, inputs, b"")
    return replace(unsigned, signature=identity.sign(unsigned.signed_bytes()))


def _signed(round_id: RoundId, member: int, set_digest: bytes, identity: IdentityKey) -> SurvivorSignature:
    unsigned = SurvivorSignature(round_id, member, set_digest, b"")
    return replace(unsigned, signature=identity.sign(unsigned.signed_bytes()))


def as_text(report: dict[str, Any]) -> str:
    """Return the report for people."""
    lines = []
    for run in report["runs"]:
        received, sent = f"{run['received_bytes'] / 1e6:.2f} MB", f"{run['coordinator_sends_bytes'] / 1e9:.1f} GB"
        lines.append(
            f"{run['members']} members, {run['neighbours']} neighbours: a member receives {received} and computes for "
            f"{run['processor_s']:.2f} s; the coordinator sends {sent}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[1000, 2000, 5000, 10_000])
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    report = {"bench": "ring_messages", "runs": list(map(measure, options.members)), "machine": describe_machine()}
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
