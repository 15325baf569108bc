"""Audits of whole jobs: planned at an epsilon, run by the parties' own code, and tested against that epsilon itself.

A target of `audit.table` begins behind the calibration: its mechanism's parameter is given. Here a job is planned for
an epsilon and a delta, and only these are believed.

1. A pair of neighbouring tables is *searched* for that moves what is released furthest (`neighbours`). The search runs
   the parties' code with the noise fixed, so it meets no chance, and nothing has to be corrected for the choice.
2. How far that pair moves each integer is then known exactly (`shifts`). With the law of the noise that the plan draws,
   the delta at the job's epsilon is computed; above the job's delta the promise is broken. A sensitivity, a
   clipping, a rounding or a calibration that is wrong shows here.
3. That what is opened has that noise in it, all of it and once, is seen in whole runs: what is opened less what is
   opened without noise must be the sum of what the parties drew, and be distributed by that law (`dp.audit`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from analyses.job.job import Job
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.registry import analysis_of
from audit.less_noise import with_noise
from audit.whole_jobs.neighbours import Unit, candidates, tables_of, worst_pair
from audit.whole_jobs.replay import Run, replay
from audit.whole_jobs.shifts import Shift, delta_at, released, shifts_between
from dp.audit.exact_audit import Design, ExactFinding, Part, audit_exactly, design_audit
from dp.audit.exact_law import Integers
from dp.cost.views import ROW_UNIT, View
from entropy import Entropy

EPSILON, DELTA = 1.0, 1e-3
"""What the jobs promise."""

SLACK = 1e-6
"""More than the error of a delta that is computed here."""

_OWNERS = ("north", "south", "west")
_ROWS = (3, 40)
_N_OTHERS = 4  # units that both tables hold
_N_CANDIDATES = 12
_N_WHOLE = 2  # runs of each table of which it is seen that all noise is in what is opened
_SEED_BYTES = 16


@dataclass(frozen=True)
class Promise:
    """What a pair of tables shows of a job's promise.

    Attributes:
        epsilon, delta: parameters of the job.
        delta_shown: what delta is at that epsilon, for the pair, at least.
        attained: the largest part of a declared sensitivity that the pair takes up.
    """

    epsilon: float
    delta: float
    delta_shown: float
    attained: float

    @property
    def is_broken(self) -> bool:
        """Whether the job is less private than it says."""
        return self.delta_shown > self.delta + SLACK or self.attained > 1


@dataclass(frozen=True)
class JobFinding:
    """What the audit of a job found.

    Attributes:
        promise: promise by the exact laws.
        adds_up: whether in all runs what was opened was the exact answer and what the parties drew; None where one
            release depends on another one.
        exact: what runs with fresh noise showed; None where there were none.
    """

    promise: Promise
    adds_up: bool | None
    exact: ExactFinding | None

    @property
    def is_beaten(self) -> bool:
        """Whether a claim is shown to be false."""
        return self.promise.is_broken or self.adds_up is False or (self.exact is not None and self.exact.is_beaten)


@dataclass(frozen=True)
class JobAudit:
    """A job whose promise is audited; `ExactTarget`, where it releases once and noise is added.

    Attributes:
        analysis, parameters: analysis of the job and its parameters.
        columns: columns of each owner, with their bounds.
        view: view of the promise.
        n_runs: whole runs of each table with fresh noise; 0 where so few numbers are released that thousands of runs
            would be needed, which the target of the mechanism has; None where one release depends on another one.
        noise: part of the noise that is drawn.
    """

    analysis: str
    parameters: Mapping[str, Any]
    columns: Mapping[str, tuple[float, float]]
    view: View
    n_runs: int | None
    noise: Fraction = Fraction(1)

    @cached_property
    def schemas(self) -> dict[str, BlockSchema]:
        """Schemas of the owners' tables."""
        columns = tuple(ColumnSchema(name=name, lower=low, upper=high) for name, (low, high) in self.columns.items())
        return {o: BlockSchema(party=o, columns=columns, has_ids=True, rows=_ROWS) for o in _OWNERS}

    @cached_property
    def plan(self) -> Plan:
        """The plan of the job for its epsilon."""
        job = Job.model_validate(
            {
                "analysis": self.analysis,
                "inputs": [{"party": owner, "table": "people"} for owner in _OWNERS],
                "privacy": {"epsilon": EPSILON, "delta": DELTA, "view": self.view},
                "parameters": dict(self.parameters),
                "anyway": True,  # however little such small tables tell
            }
        )
        return analysis_of(job).plan(job, [self.schemas[member] for member in job.members])

    @cached_property
    def pair(self) -> tuple[Mapping[str, Table], Mapping[str, Table]]:
        """The neighbours that a search has found to be furthest apart."""
        rng = np.random.default_rng(1)
        where = self.schemas if self.plan.privacy_unit != ROW_UNIT else {_OWNERS[0]: self.schemas[_OWNERS[0]]}
        others = [next(candidates(self.schemas, f"unit {i}", np.random.default_rng(i))) for i in range(_N_OTHERS)]
        runs: dict[int, Run] = {}

        def tables(unit: Unit | None) -> dict[str, Table]:
            return tables_of(self.schemas, [*others, *([] if unit is None else [unit])])

        async def size(one: Unit | None, other: Unit) -> float:
            if id(one) not in runs:
                runs[id(one)] = await replay(self.plan, tables(one))
            second = await replay(self.plan, tables(other), first=runs[id(one)])
            return float(sum(shift.attained(self.view) for shift in shifts_between(runs[id(one)], second)))

        found = worst_pair(candidates(where, "new", rng), self.view, size, n_candidates=_N_CANDIDATES)
        one, other = asyncio.run(found)
        return tables(one), tables(other)

    @cached_property
    def shifts(self) -> list[Shift]:
        """How far the pair moves what enters each mechanism."""
        first = asyncio.run(replay(self.plan, self.pair[0]))
        return shifts_between(first, asyncio.run(replay(self.plan, self.pair[1], first=first)))

    def promise(self) -> Promise:
        """Return what the pair shows, by the exact laws of the noise that is drawn."""
        drawn = [_with_noise(shift, self.noise) for shift in self.shifts]
        attained = max(float(shift.attained(self.view)) for shift in self.shifts)
        return Promise(EPSILON, DELTA, delta_at(drawn, self.view, EPSILON), attained)

    def adds_up(self) -> bool:
        """Return whether what whole runs open is the exact answer, and what the parties drew, each once."""
        for number in range(_N_WHOLE * len(self.pair)):
            label, tables = f"run {number}", self.pair[number % len(self.pair)]
            noisy, exact = [
                asyncio.run(replay(self.plan, tables, label=label, noise=part)) for part in (self.noise, Fraction(0))
            ]
            noise = [one.noise.reshape(-1) for one in sorted(noisy.drawn, key=lambda one: one.member)]
            together = np.sum(noise, axis=0) if noisy.opened else np.concatenate(noise)
            if not np.array_equal(released(noisy) - released(exact), together):
                return False
        return True

    def design(self, *, n_runs: int | None = None, **options: Any) -> Design:
        """Return the design of the runs with fresh noise; arguments as `design_audit`."""
        return design_audit(self, n_runs=n_runs or self.n_runs, **options)

    def parts(self, noise: Fraction) -> Sequence[Part]:
        """See `ExactTarget`: every integer that is released."""
        found = []
        for shift in self.shifts:
            claimed, drawn = [list(of.laws(self.view)) for of in (shift, _with_noise(shift, noise))]
            for (law, d), (of_drawn, _) in zip(claimed, drawn, strict=True):
                start, stop = law.start + min(0, d), law.stop + max(0, d)
                found.append(Part(np.stack([of_drawn.within(start, stop), of_drawn.shifted(d).within(start, stop)])))
        return found

    def draw(self, world: int, n_runs: int, entropy: Entropy) -> Integers:
        """See `ExactTarget`: whole runs with fresh noise; what the view knows of it is taken away."""
        exact = released(asyncio.run(replay(self.plan, self.pair[0], noise=Fraction(0))))
        known = self.plan.job.t if self.view == "coalition" and self.plan.releases[0].members == (1, 2, 3) else 0
        found = []
        for _ in range(n_runs):
            label = entropy.read(_SEED_BYTES).hex()
            run = asyncio.run(replay(self.plan, self.pair[world], label=label, noise=self.noise))
            mine = [one.noise.reshape(-1) for one in run.drawn if one.member <= known] if run.opened else []
            found.append(released(run) - exact - (np.sum(mine, axis=0) if mine else 0))
        laws = [(law, d) for shift in self.shifts for law, d in shift.laws(self.view)]
        starts = np.array([law.start + min(0, d) for law, d in laws])
        stops = np.array([law.stop + max(0, d) for law, d in laws])
        outputs: Integers = np.clip(np.stack(found).astype(np.int64), starts, stops - 1) - starts
        return outputs

    def with_noise(self, noise: Fraction) -> "JobAudit":
        """See `ExactTarget`. What has been searched for is kept."""
        other = replace(self, noise=noise)
        for name in ("schemas", "plan", "pair", "shifts"):
            other.__dict__[name] = getattr(self, name)
        return other


def _with_noise(shift: Shift, noise: Fraction) -> Shift:
    variances = tuple(tuple(noise * v for v in of) for of in shift.variances)
    return replace(shift, release=with_noise(shift.release, noise), variances=variances)


@dataclass(frozen=True)
class JobEntry:
    """One job of the table.

    Attributes:
        summary: what is audited, and by whom it is seen.
        covers: the ways of analyses that run as this job does.
        make: builds the audit.
    """

    summary: str
    covers: tuple[str, ...]
    make: Callable[[], JobAudit] = field(repr=False)

    def audit(
        self, entropy: Entropy, *, noise: Fraction = Fraction(1), n_runs: int | None = None, **options: Any
    ) -> JobFinding:
        """Audit the job.

        Args:
            entropy: random source of the runs with fresh noise.
            noise: part of the noise that is drawn.
            n_runs: runs of each table; by default those of the audit.
            options: see `design_audit`.
        """
        whole = self.make()
        drawn = whole.with_noise(noise)
        if whole.n_runs is None:
            return JobFinding(drawn.promise(), None, None)
        exact = None
        if n_runs or whole.n_runs:
            exact = audit_exactly(drawn, whole.design(n_runs=n_runs, **options), entropy)
        return JobFinding(drawn.promise(), drawn.adds_up(), exact)


_X = {"x0": (0.0, 1.0), "x1": (0.0, 1.0)}
_ONE, _CODE, _LABEL = {"x0": (0.0, 1.0)}, {"code": (0.0, 3.0)}, {"x0": (0.0, 1.0), "label": (0.0, 1.0)}
_FEW = {"k": 2, "k_local": 2}
_SUM = {"max_rows": 40, "units": 8}
_CASES: dict[str, tuple[str, Mapping[str, Any], Mapping[str, tuple[float, float]], int | None, tuple[str, ...]]] = {
    "pca": ("pca", {"components": 1, "gamma": 64}, _X, 120, ("pca:mpc",)),
    "low-rank": ("low-rank", {"rank": 1, "gamma": 64}, _X, 160, ("low-rank:mpc",)),
    "second-moments": ("second-moments", {"gamma": 64}, _X, 120, ("second-moments:mpc",)),
    "least-squares": ("least-squares", {"label": "north.x0", "gamma": 64}, _X, 120, ("least-squares:mpc",)),
    "logistic-moments": (
        "logistic-regression",
        {"label": "north.label", "gamma": 8},
        _LABEL,
        120,
        ("logistic-regression:moments",),
    ),
    "low-rank-sketch": (
        "low-rank",
        {"rank": 1, "gamma": 16, "method": "sketch", "sketch_rows": 8, "sketch_entries": "signs"},
        _X,
        None,
        ("low-rank:sketch, signs",),
    ),
    "pattern-count": ("pattern-count", {}, _CODE, 120, ("pattern-count:mpc",)),
    "cross-table": ("cross-table", {}, _CODE, 0, ("cross-table:mpc",)),
    "joint-count": ("joint-count", {}, _X, 0, ("joint-count:mpc",)),
    "joint-mean": ("joint-mean", {}, _X, 0, ("joint-mean:mpc",)),
    "joint-sum": ("joint-sum", {}, _X, 0, ("joint-sum:mpc",)),
    "circuit": (
        "circuit",
        {
            "program": [
                "a = column(north.code)",
                "b = column(south.code)",
                "more = less(a, b)",
                "d = column(west.code)",
                "product = mul(d, more)",
                "open n_more = sum(more)",
                "open total = sum(product)",
            ]
        },
        _CODE,
        0,
        ("circuit:mpc",),
    ),
    "pattern-count-reports": (
        "pattern-count",
        {"method": "randomized-response"},
        _CODE,
        None,
        ("pattern-count:randomized-response",),
    ),
    "clustering-reports": ("clustering", {**_FEW, "counting": "ldp"}, _X, None, ("clustering:counting ldp",)),
    "moments": ("moments", {}, _CODE, 0, ("moments:mpc",)),
    "moments-laplace": ("moments", {"method": "laplace", "order": 1}, _CODE, 0, ("moments:laplace",)),
    "moments-sketch": ("moments", {"method": "sketch", "sketch_rows": 32}, _CODE, None, ("moments:sketch",)),
    "clustering": ("clustering", _FEW, _X, None, ("clustering:local tree", "clustering:counting mpc")),
    "clustering-lloyd": (
        "clustering",
        {**_FEW, "local_method": "lloyd", "counting": "independent"},
        _X,
        None,
        ("clustering:local lloyd", "clustering:counting independent"),
    ),
    "secure-sum": ("secure-sum", _SUM, _ONE, 0, ("secure-sum:noise",)),
    "secure-mean": ("secure-mean", _SUM, _ONE, 0, ("secure-mean:noise",)),
    "secure-histogram": (
        "secure-histogram",
        {"max_rows": 40, "edges": [0.0, 0.5, 1.0]},
        _ONE,
        0,
        ("secure-histogram:noise",),
    ),
    "distribution": (
        "distribution",
        {"buckets": 16, "method": "masked", "range": [0.0, 1.0]},
        _ONE,
        160,
        ("distribution:masked",),
    ),
}

JOBS: dict[str, JobEntry] = {
    f"job-{name}-{view}": JobEntry(
        f"a whole job of {analysis} at epsilon {EPSILON:g}, delta {DELTA:g}, against {whom}",
        covers,
        lambda case=(analysis, parameters, columns, view, n_runs): JobAudit(*case),  # type: ignore[misc]
    )
    for name, (analysis, parameters, columns, n_runs, covers) in _CASES.items()
    for view, whom in (("coordinator", "the coordinator"), ("coalition", "a coalition"))
}
"""Name on the command line to the job that is audited."""
