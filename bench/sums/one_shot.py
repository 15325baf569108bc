"""Costs of one-shot sums: of their pieces, and of whole batches, simulated and over real services.

    python -m bench.sums.one_shot
    python -m bench.sums.one_shot --simulated 100000 --real 300

In a one-shot sum each device splits its vector into additive shares, one per compute party: N - 1 are seeds, one is a
packed vector. Each is sealed for its party, and all leave in one message (docs/protocols/batches.md). The pieces were
measured before it was built (docs/decisions/045): processor time in microseconds, medians; connections are real ones,
to a coordinator that refuses the call. `--simulated` runs the code of devices, coordinator and parties in one process,
`--real` in processes of their own over TLS: processor seconds, by who spends them.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from bench.machine import describe_machine, processor_s
from bench.sums.batch_runs import Certified, real, simulated
from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from entropy import KeyStream, SystemEntropy
from mpc.secagg.secret.keys import IdentityKey, RoundKey, SealedChannel
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId
from service.errors import ServiceError
from service.identity import Identity, Role
from service.tls import load_credentials
from service.trust.statements import StatementCheck, sign
from transport.aggregation_client import AggregationClient
from transport.calls.channel import open_channel
from transport.refusal import Declined, WhyRefused

RING = RingGroup(32)
ROUND = RoundId("one-shot", 0, 0)
SEED_BYTES = 32
SEALED_BYTES = SEED_BYTES + 32 + 16
"""A seed, the sender's fresh public key and the tag of the seal."""
PATIENCE_S = 120.0


def microseconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median of the processor time that one call takes."""
    taken = []
    for _ in range(repeats):
        before = time.process_time_ns()
        work()
        taken.append((time.process_time_ns() - before) / 1000)
    return statistics.median(taken)


def channel() -> tuple[SealedChannel, RoundKey]:
    """Return a device's channel to a party, under a fresh key of its own, and the party's key."""
    entropy = SystemEntropy()
    party, device = RoundKey(entropy.read(32)), RoundKey(entropy.read(32))
    return (
        SealedChannel(device, party.public_bytes, transcript=bytes(32), round_id=ROUND, me=2, them=1),
        party,
    )


def seal() -> None:
    """Do what a device does to seal a seed for one party."""
    channel()[0].seal("share", bytes(SEED_BYTES))


def measure_parts(length: int, repeats: int) -> dict[str, float]:
    """Return the processor time of each piece, for vectors of this length, in microseconds."""
    total, key = RING.zeros(length), bytes(range(32))
    words = np.arange(length, dtype=np.uint32)
    packed = RING.pack(words)
    device_public = RoundKey(SystemEntropy().read(32)).public_bytes
    party = RoundKey(SystemEntropy().read(32))
    theirs = SealedChannel(party, device_public, transcript=bytes(32), round_id=ROUND, me=1, them=2)

    def opened() -> None:
        SealedChannel(party, device_public, transcript=bytes(32), round_id=ROUND, me=1, them=2)
        with suppress(Exception):  # the cipher's work is the same where the tag is wrong
            theirs.open("share", bytes(SEED_BYTES + 16))

    return {
        "device_seals_one_share": microseconds(seal, repeats),
        "party_opens_one_share": microseconds(opened, repeats),
        "expand_and_add_one_seed": microseconds(
            lambda: apply_masks(RING, total, [Mask(key, is_negative=False)]), repeats
        ),
        "unpack_and_add_one_vector": microseconds(lambda: RING.accumulate(total, RING.unpack(packed, length)), repeats),
        "key_stream_of_one_seed": microseconds(lambda: KeyStream(key).words(length // 2), repeats),
    }


def measure_checks(repeats: int) -> dict[str, float]:
    """Return what a party spends on who has signed an answer, in microseconds, and what of it are curves alone."""
    statement, purpose = b"an answer", ec.ECDSA(hashes.SHA256())
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        certified = Certified(Path(folder))
        device, party = certified(Role.DEVICE, "device"), certified(Role.PARTY, "party")
        check, signed = StatementCheck(party), sign(device, statement)
        private = ec.generate_private_key(ec.SECP256R1())
        public, signature = private.public_key(), private.sign(statement, purpose)
        mine, theirs = (RoundKey(SystemEntropy().read(32)) for _ in range(2))
        return {
            "signer": microseconds(lambda: check.signer(signed, statement, Role.DEVICE), repeats),
            "one_verification": microseconds(lambda: public.verify(signature, statement, purpose), repeats),
            "one_exchange": microseconds(lambda: mine.exchange(theirs.public_bytes), repeats),
        }


async def measure_connections(n_devices: int) -> dict[str, float]:
    """Return the coordinator's processor time for a device that connects, calls once and leaves, in milliseconds."""
    names = [f"device-{i}" for i in range(n_devices)]
    identities = {name: IdentityKey(SystemEntropy()).public_bytes.hex() for name in names}
    with (
        tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder,
        LocalDeployment(
            Path(folder), {}, members=[(Role.DEVICE, name) for name in names], sum_members=identities
        ) as deployment,
    ):
        coordinator = Identity(deployment.federation, Role.COORDINATOR, COORDINATOR_NAME)
        pid = deployment.processes[COORDINATOR_NAME].pid
        spent = []
        for n_calls in (1, 11):
            before = processor_s(pid)
            for name in names:
                own = load_credentials(
                    authority=deployment.folder / "ca.pem",
                    certificate=deployment.folder / f"{name}.pem",
                    key=deployment.folder / f"{name}.key",
                )
                async with open_channel(deployment.addresses[COORDINATOR_NAME], coordinator, own) as opened:
                    client = AggregationClient(COORDINATOR_NAME, opened, PATIENCE_S)
                    for _ in range(n_calls):
                        with suppress(ServiceError):
                            await client.answer(Declined(ROUND, 1, WhyRefused.TROUBLE))
            spent.append((processor_s(pid) - before) / n_devices * 1000)
    call_ms = (spent[1] - spent[0]) / 10
    return {"call_ms": call_ms, "connection_ms": spent[0] - call_ms}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--devices", type=int, default=100, help="that connect")
    parser.add_argument("--repeats", type=int, default=201)
    parser.add_argument("--simulated", type=int, default=0, help="devices of a whole batch in one process; 0 for none")
    parser.add_argument("--real", type=int, default=0, help="devices of a batch over real services; 0 for none")
    parser.add_argument("--elements", type=int, default=1_000, help="of each vector of these batches")
    options = parser.parse_args(arguments)
    report: dict[str, Any] = {
        "bench": "one_shot",
        "bytes": {length: RING.wire_bytes(length) for length in options.lengths},
        "sealed_seed_bytes": SEALED_BYTES,
        "parts_us": {length: measure_parts(length, options.repeats) for length in options.lengths},
        "checks_us": measure_checks(options.repeats),
        "coordinator": asyncio.run(measure_connections(options.devices)),
        "machine": describe_machine(),
    }
    if options.simulated:
        report["simulated_batch"] = simulated(options.simulated, options.elements)
    if options.real:
        report["real_batch"] = real(options.real, options.elements)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
