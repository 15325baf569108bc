"""Masked sums without a network: processor time of each side, bytes on the wire, and how often the ring succeeds.

    python -m bench.sums.secagg_core --members 100 --elements 1000000 --vanish 0.3 --format json

All members and the coordinator are the real machines of `mpc.secagg`, called in turn in one process; the time of a call
is the processor time that the process spent in it. Members drop out after they have shared keys, before they send their
vector. Journals are in memory. The sum is compared with the exact one, and a wrong one is an error. A draw of the ring
succeeds if every member, including dropouts, has enough holders among the survivors.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from bench.machine import describe_machine
from entropy import SystemEntropy
from mpc.secagg.config import MAX_COMPLETE_GRAPH_MEMBERS, RosterEntry, RoundConfig, Topology
from mpc.secagg.coordinator import FromMembers
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.simulation import Meter, run_locally
from mpc.secagg.stage import Stage
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId

MAX_VALUE = 1000


class WrongSumError(RuntimeError):
    """The opened sum is not the sum of the survivors' vectors."""


class ProcessorMeter(Meter):
    """Adds up processor time, and what a member sends beside its vector."""

    def __init__(self) -> None:
        self.member_s: dict[int, float] = defaultdict(float)
        self.coordinator_s = 0.0
        self.sent_bytes: dict[int, int] = defaultdict(int)

    def sent(self, message: FromMembers) -> None:
        """Count the bytes in a message; numbers that say whose they are count 4."""
        self.sent_bytes[message.member] += _content_bytes(message)

    @contextmanager
    def member(self, member: int) -> Iterator[None]:
        """Count what a member spends."""
        start_s = time.process_time()
        yield
        self.member_s[member] += time.process_time() - start_s

    @contextmanager
    def coordinator(self) -> Iterator[None]:
        """Count what the coordinator spends."""
        start_s = time.process_time()
        yield
        self.coordinator_s += time.process_time() - start_s


def _content_bytes(content: object) -> int:
    if isinstance(content, bytes):
        return len(content)
    if isinstance(content, Mapping):
        return sum(4 + _content_bytes(value) for value in content.values())
    return sum(map(_content_bytes, vars(content).values())) if is_dataclass(content) else 4


def measure_round(n_members: int, n_elements: int, vanish: float, bits: int, corrupt: float) -> dict[str, Any]:
    """Run one round; `vanish` and `corrupt` are fractions of the members."""
    n_dropouts, n_corrupt = int(vanish * n_members), int(corrupt * n_members)
    if n_members <= MAX_COMPLETE_GRAPH_MEMBERS:
        topology = Topology.complete(n_members, n_corrupt)
    else:
        topology = Topology.ring(n_members, n_corrupt, n_dropouts)
    identities = {i: IdentityKey(SystemEntropy()) for i in range(1, n_members + 1)}
    config = RoundConfig(
        round_id=RoundId("bench", 0, 0),
        roster=tuple(RosterEntry(i, f"party-{i}", key.public_bytes) for i, key in identities.items()),
        topology=topology,
        group=RingGroup(bits),
        vector="gradient",
        encoding=VectorEncoding(n_elements, float(MAX_VALUE)),
    )
    expected = np.zeros(n_elements, dtype=np.int64)

    def values_of(member: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        values = np.random.default_rng(member).integers(-MAX_VALUE, MAX_VALUE + 1, n_elements)
        np.add(expected, values, out=expected)
        return values

    meter = ProcessorMeter()
    opened = run_locally(
        config,
        values_of,
        identities,
        lambda member: SystemEntropy(),
        dropouts=dict.fromkeys(range(1, n_dropouts + 1), Stage.MASK),
        meter=meter,
    )
    if not np.array_equal(opened.integers(), expected):
        raise WrongSumError("the opened sum is not the sum of the survivors' vectors")
    survivors_s = [meter.member_s[member] for member in opened.survivors]
    vector_bytes = config.group.wire_bytes(n_elements)
    sent_bytes = max(meter.sent_bytes[member] for member in opened.survivors)
    return {
        "members": n_members,
        "elements": n_elements,
        "bits": bits,
        "degree": topology.degree,
        "required_shares": topology.n_required,
        "corrupt": n_corrupt,
        "vanished": n_dropouts,
        "exact": True,
        "member_cpu_s": {"median": statistics.median(survivors_s), "largest": max(survivors_s)},
        "coordinator_cpu_s": meter.coordinator_s,
        "upload": {
            "vector_bytes": vector_bytes,
            "other_bytes": sent_bytes - vector_bytes,
            "above_packed_percent": 100 * (sent_bytes / (n_elements * bits / 8) - 1),
        },
    }


def measure_expansion(n_elements: int, bits: int, repeats: int = 40) -> dict[str, Any]:
    """Time the expansion and addition of one mask; the median over batches of ten."""
    group = RingGroup(bits)
    total = group.zeros(n_elements)
    batches_s = []
    for _ in range(repeats):
        masks = [Mask(SystemEntropy().read(32), is_negative=False) for _ in range(10)]
        start_s = time.process_time()
        apply_masks(group, total, masks)
        batches_s.append((time.process_time() - start_s) / len(masks))
    return {
        "elements": n_elements,
        "bits": bits,
        "ms": {"median": 1000 * statistics.median(batches_s), "least": 1000 * min(batches_s)},
    }


def count_ring_failures(
    n_members: int, degree: int, n_required: int, n_dropouts: int, *, n_draws: int, rng: np.random.Generator
) -> int:
    """Draw who survives on a random ring; count the draws in which somebody has too few surviving holders."""
    failures = 0
    half = degree // 2
    stays = np.arange(n_members) >= n_dropouts
    for _ in range(n_draws):
        ring = rng.permutation(stays).astype(np.int64)
        around = np.concatenate([ring[-half:], ring, ring[:half]])
        running = np.concatenate([[0], np.cumsum(around)])
        holders = running[degree + 1 :] - running[: -degree - 1] - ring
        failures += bool(holders.min() < n_required)
    return failures


def measure_ring(n_members: int, corrupt: float, vanish: float, n_draws: int) -> dict[str, Any]:
    """Simulate the ring that is safe at the stated rates, at those and at other dropouts."""
    topology = Topology.ring(n_members, int(corrupt * n_members), int(vanish * n_members))
    rng = np.random.default_rng(0)
    rates = sorted({vanish, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3})
    return {
        "members": n_members,
        "corrupt": int(corrupt * n_members),
        "stated_dropout": vanish,
        "degree": topology.degree,
        "required_shares": topology.n_required,
        "draws": n_draws,
        "failures_at_dropout": {
            f"{rate:g}": count_ring_failures(
                n_members, topology.degree, topology.n_required, int(rate * n_members), n_draws=n_draws, rng=rng
            )
            for rate in rates
        },
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the lines that people read."""
    round_, mask, ring = report["round"], report["expansion"], report["ring"]
    member_s, upload = round_["member_cpu_s"], round_["upload"]
    failures = ", ".join(f"{float(rate):.0%}: {n}" for rate, n in ring["failures_at_dropout"].items())
    who = f"{round_['members']} members x {round_['elements']} of {round_['bits']} bits"
    ring_is = f"ring of {ring['members']}, {ring['degree']} neighbours, {ring['required_shares']} shares required"
    lines = (
        f"{who}, {round_['degree']} neighbours each, {round_['vanished']} drop out; the sum is exact",
        f"  processor time of a member: median {member_s['median']:.3f} s, largest {member_s['largest']:.3f} s",
        f"  processor time of the coordinator: {round_['coordinator_cpu_s']:.2f} s",
        f"  upload: {upload['vector_bytes']} bytes of vector, {upload['other_bytes']} of all else",
        f"one mask of {mask['elements']} x {mask['bits']} bits: {mask['ms']['median']:.2f} ms",
        f"{ring_is}; failures of {ring['draws']} draws at dropout {failures}",
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--vanish", type=float, default=0.3, help="fraction that drops out after sharing keys")
    parser.add_argument("--corrupt", type=float, default=0.0, help="fraction that may collude with the coordinator")
    parser.add_argument(
        "--ring", type=int, default=1000, help="members on the simulated ring, 10 %% corrupt and 10 %% dropouts"
    )
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    report = {
        "bench": "secagg_core",
        "round": measure_round(options.members, options.elements, options.vanish, options.bits, options.corrupt),
        "expansion": measure_expansion(1_000_000, 32),
        "ring": measure_ring(options.ring, 0.1, 0.1, options.draws),
        "machine": describe_machine(),
    }
    sys.stdout.write((json.dumps(report, indent=2) if options.format == "json" else as_text(report)) + "\n")


if __name__ == "__main__":
    main()
