"""Masked sums over real gRPC on loopback: a coordinator process, and members in one other process.

    python -m bench.sums.secagg --members 10 --elements 100000
    python -m bench.sums.secagg --members 1000 --elements 100000 --vanish 0.1 --corrupt 0.05 --stage-s 300 \
        --grace-s 10 --shared-checks

The coordinator is `moiety coordinator serve`; each member has a certificate, a key and a TLS connection of its own, and
its journal in memory. The time runs from the question to the answer at the analyst, start of the processes excluded.
Members drop out when their masked vector is due: that stage then ends when nobody has answered for `--grace-s`, so
`working_s` leaves out the stages in which somebody was waited for in vain. The sum is compared with the exact one, and
a wrong one is an error.

With `--shared-checks` the members of the process share what is the same for all of them: they check each signature and
read each message to all once, and keep one copy of it. Real members do that on a processor and in memory of their own;
n members on one processor would check and keep n^2, and the coordinator would be measured while it waits for that. What
a member takes by itself is measured by `bench.sums.secagg_core`.

    python -m bench.sums.secagg --members 10 --peer flower --flower-services
    python -m bench.sums.secagg --members 50 --peer flower

The first runs Flower's SecAgg+ workflow too, over its own services on loopback, which start processes for every message
(a minute and more), and in one process, without network and without starting anything; the second only in one process.
"""

import argparse
import asyncio
import functools
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from wire.v1.aggregation_pb2 import ToMember

from analyses.sums.records import DeclaredRecord, Record
from analyses.sums.secure_sum import SumParams, round_config
from analyst.connection import ClientConfig, open_coordinator
from bench.machine import describe_machine, peak_resident_bytes, processor_s, resident_bytes
from bench.peers.environment import UNAVAILABLE, PeerUnavailableError
from bench.peers.flower_secagg import ensure_flower, run_in_memory, run_services
from bench.sums.connecting import Connecting
from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from device import device as device_module
from device.device import Device
from device.records import KeptRecord
from entropy import SystemEntropy
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator import FromMembers
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.member import context as member_context
from mpc.secagg.messages import MaskedInput, NeighbourList, ShareDelivery
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey, is_signed_by
from service.identity import Identity, Role
from service.tls import load_credentials
from transport import aggregation_client
from transport.aggregation_client import AggregationClient
from transport.calls.channel import open_channel
from transport.happenings import Failed, Result, StageReport
from transport.question_client import ask
from transport.sum_codec import ToMembers, decode_to_member, encode_from_member

RECORD = "gradient"
LARGEST = 1000
FLOWER_S = 540.0
"""Longest run of Flower."""


class WrongSumError(RuntimeError):
    """The opened sum is not the sum of the survivors' vectors, or there is none."""


class MeteredClient(AggregationClient):
    """Counts what its member sends; it may drop out when the vector is due."""

    sent_bytes = 0
    drops_out = False

    async def answer(self, message: FromMembers) -> None:
        """Send the message, or drop out."""
        if self.drops_out and isinstance(message, MaskedInput):
            await asyncio.Event().wait()
        self.sent_bytes += encode_from_member(message).ByteSize()
        await super().answer(message)


def values_of(number: int, n_elements: int) -> np.ndarray[Any, Any]:
    """Return a member's vector."""
    return np.random.default_rng(number).integers(-LARGEST, LARGEST + 1, n_elements).astype(np.float64)


def share_checks() -> None:
    """Let the members of this process share what is the same for all: checks, and what messages to all hold."""
    member_context.is_signed_by = functools.lru_cache(maxsize=None)(is_signed_by)
    shared: dict[Any, Any] = {}

    def once(of: Any) -> Any:
        return shared.setdefault(of, of)

    def decoded(wire: ToMember, policy: MemberPolicy | None) -> ToMembers:
        name = wire.WhichOneof("message")
        if name in ("invitation", "survivors", "signatures"):
            part = getattr(wire, name)
            key = name, part.round_id.attempt, part.ByteSize()  # one question is asked
            if key not in shared:
                shared[key] = decode_to_member(wire, policy)
            found: ToMembers = shared[key]
            return found
        message = decode_to_member(wire, policy)
        if isinstance(message, NeighbourList):
            message = replace(message, advertisements=tuple(map(once, message.advertisements)))
        elif isinstance(message, ShareDelivery):
            message = replace(message, sharers=once(message.sharers))
        return message

    def configured(params: SumParams, session: str, identities: Any, attempt: int) -> RoundConfig:
        if attempt not in shared:
            shared[attempt] = round_config(params, session, identities, attempt)
        config: RoundConfig = shared[attempt]
        return config

    aggregation_client.decode_to_member = decoded
    device_module.round_config = configured


def measure(
    n_members: int, n_elements: int, vanish: float, corrupt: float, stage_s: float, grace_s: float
) -> dict[str, Any]:
    """Run one sum; `vanish` and `corrupt` are fractions of the members."""
    names = [f"member-{i:04}" for i in range(1, n_members + 1)]
    keys = {name: IdentityKey(SystemEntropy()) for name in names}
    identities = {name: key.public_bytes.hex() for name, key in keys.items()}
    question = SumParams(
        analysis="secure-sum",
        record=RECORD,
        length=n_elements,
        largest=LARGEST,
        colluding=int(corrupt * n_members),
        vanishing=int(vanish * n_members),
        stage_s=stage_s,
        grace_s=grace_s,
    )
    with (
        tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder,
        LocalDeployment(
            Path(folder), {}, members=[(Role.DEVICE, name) for name in names], sum_members=identities
        ) as deployment,
    ):
        return asyncio.run(_measure(deployment, keys, question))


async def _measure(deployment: LocalDeployment, keys: dict[str, IdentityKey], question: SumParams) -> dict[str, Any]:
    coordinator = Identity(deployment.federation, Role.COORDINATOR, COORDINATOR_NAME)
    address, folder = deployment.addresses[COORDINATOR_NAME], deployment.folder
    policy = MemberPolicy(pinned={name: key.public_bytes for name, key in keys.items()})
    clients: dict[str, MeteredClient] = {}
    pid = deployment.processes[COORDINATOR_NAME].pid
    async with AsyncExitStack() as stack:
        members = Connecting()
        for number, (name, key) in enumerate(keys.items(), start=1):
            own = load_credentials(
                authority=folder / "ca.pem", certificate=folder / f"{name}.pem", key=folder / f"{name}.key"
            )
            channel = await stack.enter_async_context(open_channel(address, coordinator, own))
            clients[name] = MeteredClient(COORDINATOR_NAME, channel, question.stage_s)
            clients[name].drops_out = number <= question.vanishing
            device = Device(
                name,
                clients[name],
                key,
                policy,
                MemoryJournal(),
                {
                    RECORD: KeptRecord(
                        DeclaredRecord(question.length), lambda n=number: Record(values_of(n, question.length))
                    )
                },
                SystemEntropy(),
                exact_sums=True,
            )
            await members.begin(device.run(), channel)
        stack.push_async_callback(members.end)
        await members.all_connected()
        before_bytes = resident_bytes(pid)["all"]
        started_s, cpu_before_s, members_before_s = time.monotonic(), processor_s(pid), time.process_time()
        reports, result = [], None
        async with open_coordinator(ClientConfig.load(deployment.client_config)) as (name, channel):
            async for happening in ask(name, channel, "sum", question.canonical_json()):
                if isinstance(happening, StageReport):
                    reports.append(happening)
                elif isinstance(happening, Result):
                    result = json.loads(happening.result_json)
                elif isinstance(happening, Failed):
                    raise WrongSumError(happening.reason[:500])
        seconds = time.monotonic() - started_s
        coordinator_s, resident = processor_s(pid) - cpu_before_s, peak_resident_bytes(pid)
        members_s = time.process_time() - members_before_s
    if result is None:
        raise WrongSumError("the coordinator gave no answer")
    numbers = {name: number for number, name in enumerate(keys, start=1)}
    exact = sum(values_of(numbers[name], question.length) for name in result["survivors"])
    if not np.array_equal(exact, result["sum_in_units"]):
        raise WrongSumError("the sum is not that of the survivors")
    return {
        "members": len(keys),
        "elements": question.length,
        "vanished": len(result["vanished"]),
        "seconds": seconds,
        "working_s": seconds - sum(r.seconds for r in reports if r.missing),
        "stages_s": {r.stage: r.seconds for r in reports},
        "coordinator_cpu_s": coordinator_s,
        "members_cpu_s": members_s,
        "coordinator_peak_resident_bytes": resident,
        "coordinator_resident_bytes_before": before_bytes,
        "members_peak_resident_bytes": peak_resident_bytes("self"),
        "sent_bytes_by_a_member": max(client.sent_bytes for client in clients.values()),
    }


def measure_flower(n_members: int, n_elements: int, ours_s: float, *, with_services: bool) -> dict[str, Any]:
    """Run Flower's round on vectors of the same size; `times` says how many times our time it took."""
    ways = {"in_memory": run_in_memory} | ({"services": run_services} if with_services else {})
    runs = {way: run(n_members, n_elements, FLOWER_S) for way, run in ways.items()}
    return {way: {**run, "times": run["seconds"] / ours_s} for way, run in runs.items()}


def as_text(report: dict[str, Any]) -> str:
    """Return the report for people."""
    run = report["run"]
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in run["stages_s"].items())
    resident = f"{run['coordinator_peak_resident_bytes'] / 1e6:.0f} MB"
    lines = (
        f"{run['members']} members x {run['elements']}, {run['vanished']} drop out; the sum is exact",
        f"  question to answer {run['seconds']:.2f} s, without waiting for dropouts {run['working_s']:.2f} s",
        f"  stages in s: {stages}",
        f"  coordinator: processor time {run['coordinator_cpu_s']:.2f} s, peak memory {resident}",
        f"  a member sends at most {run['sent_bytes_by_a_member']} bytes",
        *(
            f"Flower, {way.replace('_', ' ')}: {flower['seconds']:.2f} s, {flower['times']:.1f} times ours; "
            f"the sum is off by up to {flower['largest_error']:.2g}"
            for way, flower in report.get("flower", {}).items()
        ),
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--vanish", type=float, default=0.0, help="fraction that drops out when its vector is due")
    parser.add_argument("--corrupt", type=float, default=0.0, help="fraction that may collude with the coordinator")
    parser.add_argument("--repeats", type=int, default=1, help="the median of so many rounds is reported")
    parser.add_argument("--peer", choices=("flower",), help="run its SecAgg+ workflow beside")
    parser.add_argument("--flower-services", action="store_true", help="also over Flower's own services")
    parser.add_argument("--stage-s", type=float, default=60.0, help="deadline of each stage")
    parser.add_argument("--grace-s", type=float, default=10.0, help="how long a stage with its quorum waits for more")
    parser.add_argument("--shared-checks", action="store_true", help="check each signature once for all members")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),  # why a member has left the round
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if options.peer:
        try:
            ensure_flower()
        except PeerUnavailableError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(UNAVAILABLE)
    if options.shared_checks:
        share_checks()
    runs = [
        measure(options.members, options.elements, options.vanish, options.corrupt, options.stage_s, options.grace_s)
        for _ in range(options.repeats)
    ]
    run = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
    report: dict[str, Any] = {"bench": "secagg", "run": run, "machine": describe_machine()}
    if options.peer:
        report["flower"] = measure_flower(
            options.members, options.elements, run["seconds"], with_services=options.flower_services
        )
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
