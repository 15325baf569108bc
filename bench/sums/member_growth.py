"""What one member of a masked sum has to do that grows with the number of members, and what it is sent.

    python -m bench.sums.member_growth --members 1000 2000 5000 10000

All members advertise keys; one of them, here, does what a device does with the messages that speak of all: it reads the
invitation and checks the round against its policy and its question, reads the list of members and checks every
signature in it, shares its secrets among its neighbours, and reads and checks the signatures of the survivors. The
messages are those that a coordinator would send. Neither the network nor other members' shares are measured, which grow
with the neighbours alone. Processor seconds; bytes as they are on the wire, before TLS.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from analyses.sums.secure_sum import SumParams, round_config
from bench.machine import describe_machine
from entropy import SystemEntropy
from mpc.secagg.config import input_digest
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.member.awaiting_members import AwaitingMembers
from mpc.secagg.member.awaiting_signatures import AwaitingSignatures
from mpc.secagg.member.context import MemberContext
from mpc.secagg.messages import (
    MemberList,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    survivor_digest,
)
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from transport.sum_codec import Invitation, ToMembers, decode_to_member, encode_to_member, parse_to_member

CORRUPT, VANISH = 0.05, 0.1
"""Fractions of the members that may collude, and that drop out before their vector arrives."""

R = TypeVar("R")


class Timed:
    """Processor seconds by kind of work, and bytes by kind of message."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, int] = {}

    def run(self, what: str, work: Callable[[], R]) -> R:
        """Do some work, and count its time."""
        before = time.process_time()
        found = work()
        self.seconds[what] = self.seconds.get(what, 0.0) + time.process_time() - before
        return found

    def received(self, what: str, message: ToMembers) -> Any:
        """Return a message as a member reads it from its bytes, which are counted."""
        data = encode_to_member(message).SerializeToString()
        self.bytes[what] = len(data)
        return self.run(what, lambda: decode_to_member(parse_to_member(data)))


def measure(n_members: int, n_elements: int) -> dict[str, Any]:
    """Return seconds and bytes of member 1 in a round of so many."""
    keys = {f"member-{i:05}": IdentityKey(SystemEntropy()) for i in range(1, n_members + 1)}
    identities = {name: key.public_bytes for name, key in keys.items()}
    question = SumParams(
        analysis="secure-sum",
        record="gradient",
        length=n_elements,
        largest=1000,
        colluding=int(CORRUPT * n_members),
        vanishing=int(VANISH * n_members),
    )
    public_input = question.canonical_json().encode()
    config = round_config(question, "growth", identities)
    digest = input_digest(config.round_id, public_input)
    contexts = [
        MemberContext(config, entry.number, keys[entry.name], MemoryJournal(), digest, SystemEntropy())
        for entry in config.roster
    ]
    states = [AwaitingMembers.begin(context) for context in contexts]

    timed, me = Timed(), contexts[0]
    me.journal.open_round(config.round_id)
    invited = timed.received("invitation", Invitation(config, public_input))
    policy = MemberPolicy(pinned=identities)

    def accept() -> None:
        policy.check(invited.config, me.me, me.identity.public_bytes)
        assert round_config(question, "growth", identities).digest == invited.config.digest

    timed.run("invitation", accept)
    members = timed.received("members", MemberList(config.round_id, tuple(state.advertisement for state in states)))
    _, sharing = timed.run("members", lambda: states[0].receive(members))

    sharers = tuple(range(1, n_members + 1))
    survivors = sharers[: config.topology.fewest_survivors]
    timed.received("survivors", SurvivorList(config.round_id, survivors))
    set_digest = timed.run("survivors", lambda: survivor_digest(sharing.transcript, sharers, survivors))
    signatures = []
    for context in contexts[: config.topology.n_signatures]:
        unsigned = SurvivorSignature(config.round_id, context.me, set_digest, b"")
        signature = context.identity.sign(unsigned.signed_bytes())
        signatures.append(SurvivorSignature(config.round_id, context.me, set_digest, signature))
    signed = timed.received("signatures", SignedSurvivors(config.round_id, tuple(signatures)))
    timed.run("signatures", lambda: AwaitingSignatures(me, sharers, survivors, set_digest, {}).receive(signed))
    return {
        "members": n_members,
        "neighbours": config.topology.degree,
        "signatures": config.topology.n_signatures,
        "seconds": timed.seconds,
        "seconds_in_all": sum(timed.seconds.values()),
        "bytes": timed.bytes,
        "bytes_in_all": sum(timed.bytes.values()),
        "bytes_of_the_coordinator": n_members * sum(timed.bytes.values()),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[1_000, 2_000, 5_000, 10_000])
    parser.add_argument("--elements", type=int, default=10_000, help="of each vector")
    options = parser.parse_args(arguments)
    runs = [measure(n_members, options.elements) for n_members in options.members]
    report = {"bench": "member_growth", "runs": runs, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
