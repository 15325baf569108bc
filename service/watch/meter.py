"""Counters of one running service, for Prometheus.

Whoever may read metrics learns no more than that jobs ran, and how they went: no rows, no values, no epsilon of a job,
no names of analysts. What grows with rows, the bytes of a job, is rounded up to a power of two.
"""

import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from service.watch.reasons import kind_of
from service.watch.traces import Traces

P = ParamSpec("P")
R = TypeVar("R")

MAX_LABELS = 100
"""Stages and peers beyond so many different ones are counted together: their names come from others."""

MIN_BYTES = 1 << 16
"""The least that a job's bytes from or to one peer count as."""

STAGE_BUCKETS_S = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
LEDGER_BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Meter:
    """What one service counts.

    Args:
        traces: is told of jobs and stages, too; None where the service traces nothing.

    Attributes:
        registry: registry of all metrics; more may be added.
    """

    def __init__(self, traces: Traces | None = None) -> None:
        self._traces = traces
        self.registry = CollectorRegistry()
        self._jobs = Counter(
            "moiety_jobs",
            "Jobs that have ended, by state and kind of reason.",
            ("state", "reason"),
            registry=self.registry,
        )
        self._stage_s = Histogram(
            "moiety_stage_seconds",
            "Seconds that a stage of a job took.",
            ("stage",),
            buckets=STAGE_BUCKETS_S,
            registry=self.registry,
        )
        self._bytes = Counter(
            "moiety_peer_bytes",
            "Bytes of jobs by peer; those of each job are rounded up to a power of two, at least 64 KiB.",
            ("peer", "direction"),
            registry=self.registry,
        )
        self._retries = Counter(
            "moiety_retries", "Further attempts to reach a peer.", ("peer",), registry=self.registry
        )
        self._ledger_s = Histogram(
            "moiety_ledger_seconds",
            "Seconds that operations of the privacy ledger took.",
            ("operation",),
            buckets=LEDGER_BUCKETS_S,
            registry=self.registry,
        )
        self._stages: dict[tuple[str, str], tuple[str, float]] = {}  # of a job and a member: stage, and since when
        self._known: dict[str, set[str]] = {}

    def job_began(self, job_id: str) -> None:
        """Note that a job has begun; it is counted when it has ended."""
        if self._traces is not None:
            self._traces.begin(job_id)

    def job_ended(self, job_id: str, state: str, reason: str) -> None:
        """Count a job that has ended; the reason is a public text, of which only the kind is kept."""
        self._jobs.labels(state, kind_of(reason)).inc()
        if self._traces is not None:
            self._traces.end(job_id, state, reason)

    def stage(self, job_id: str, member: str, stage: str) -> None:
        """Note that a member is in a stage of a job: the one before it has ended, if it is another one."""
        before = self._stages.get((job_id, member))
        if before is not None and before[0] == stage:
            return
        now_s = time.monotonic()
        if before is not None:
            self._stage_s.labels(self._bounded("stage", before[0])).observe(now_s - before[1])
        self._stages[job_id, member] = (stage, now_s)
        if self._traces is not None and stage:
            self._traces.stage(job_id, member, stage)

    def stages_ended(self, job_id: str) -> None:
        """Note that all stages of a job have ended."""
        for key in [key for key in self._stages if key[0] == job_id]:
            self.stage(*key, "")
            del self._stages[key]

    def traffic(self, direction: str, n_bytes: Mapping[str, int]) -> None:
        """Count what one job has moved.

        Args:
            direction: `sent` or `received`.
            n_bytes: bytes by peer.
        """
        for peer, n in n_bytes.items():
            if n:
                self._bytes.labels(self._bounded("peer", peer), direction).inc(rounded_up(n))

    def timed(self, operation: str, work: Callable[P, R]) -> Callable[P, R]:
        """Return the same operation of the ledger, whose time is counted."""

        @wraps(work)
        def timed_work(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._ledger_s.labels(operation).time():
                return work(*args, **kwargs)

        return timed_work

    def retried(self, peer: str) -> None:
        """Count a further attempt to reach a peer."""
        self._retries.labels(self._bounded("peer", peer)).inc()

    def _bounded(self, label: str, value: str) -> str:
        known = self._known.setdefault(label, set())
        if value not in known and len(known) >= MAX_LABELS:
            return "other"
        known.add(value)
        return value


def rounded_up(n_bytes: int) -> int:
    """Return the next power of two, at least `MIN_BYTES`."""
    return max(MIN_BYTES, 1 << (n_bytes - 1).bit_length())
