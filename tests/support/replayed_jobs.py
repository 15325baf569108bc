"""Jobs of every analysis on small tables and on neighbours of these, for replays (`audit.whole_jobs.replay`)."""

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import person_tables
from registry_jobs import N_RATED, OTHER_WAYS, OWNERS, VARIANTS, Variant

from analyses.job.matching import MatchingSchema
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema
from analyses.registry import ANALYSES, analysis_of
from audit.whole_jobs.neighbours import Unit, candidate_raters, candidates, tables_of
from audit.whole_jobs.replay import Run, differences, replay
from audit.whole_jobs.shifts import BY_PLACE, shifts_between
from dp.cost.views import EVENT_UNIT, PERSON, RATING_UNIT, ROW_UNIT, View

N_UNITS = 5
ROWS = (3, 40)
MOST_OF_A_PERSON = 2
IDENTIFIED = MatchingSchema(recipe=(("trim",),), reveal=True)
NEW = "59"
"""Name of the unit in which neighbours differ; a number, as users of ratings in vertical jobs have."""


@dataclass(frozen=True)
class Replayed:
    """A job, as it is replayed.

    Attributes:
        variant: of the registry's jobs.
        matching: kind of it; empty for none.
        unit: `person` where persons are protected.
        members: that compute; by default those of the variant.
    """

    variant: Variant
    matching: str = ""
    unit: str = ""
    members: tuple[str, ...] | None = None
    seed: int = 1
    schemas: dict[str, BlockSchema] = field(init=False)
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        variant, more = self.variant, {"anyway": True}
        if self.matching:
            more |= {"matching": {"kind": self.matching}, "compute": ()}
        if self.members is not None:
            more |= {"compute": self.members}
        if self.unit:
            more |= {"parameters": {**variant.parameters, "unit": self.unit}}
        schemas = {}
        for owner, table in variant.tables().items():
            changes = {} if variant.has_ratings else {"rows": ROWS}
            if self.matching:
                changes |= {"matching": IDENTIFIED, "has_ids": False}
            if self.unit == PERSON:
                changes |= {"most_rows_per_person": MOST_OF_A_PERSON}
            schemas[owner] = table.schema.model_copy(update=changes)
        job = variant.job(**more)
        plan = analysis_of(job).plan(job, [schemas.get(m) or BlockSchema(party=m) for m in job.members])
        object.__setattr__(self, "schemas", schemas)
        object.__setattr__(self, "plan", plan)

    def others(self) -> list[Unit]:
        """The units that both tables hold; where rows are matched, some that not all owners have."""
        rng = np.random.default_rng(self.seed)
        if self.variant.has_ratings:
            return [
                Unit(str(i), {o: np.column_stack([rng.choice(N_RATED, 4, replace=False), rng.uniform(-1, 3, 4)])})
                for i, o in enumerate(OWNERS * 2)
            ]
        units = [Unit(f"unit {i}", self._rows(rng, 1 + i % 3 if self.unit else 1)) for i in range(N_UNITS)]
        if self.matching:
            alone = [Unit(f"{o} {i}", {o: self._rows(rng, 1)[o]}) for o in OWNERS for i in range(2)]
            return [*units, *alone]
        return units

    def _rows(self, rng, n_rows):
        return {
            o: rng.uniform([c.lower for c in s.columns], [c.upper for c in s.columns], (n_rows, len(s.columns)))
            for o, s in self.schemas.items()
        }

    def candidates(self) -> Iterator[Unit]:
        """Units that may be at the worst, of the kind that the job protects."""
        rng, owner = np.random.default_rng(self.seed), OWNERS[0]
        unit = self.plan.privacy_unit
        if unit == EVENT_UNIT:
            return (Unit(NEW, {o: np.array([[value if o == owner else 1]]) for o in OWNERS}) for value in range(50))
        if self.variant.has_ratings:
            raters = candidate_raters({owner: self.schemas[owner]}, NEW, rng)
            if unit != RATING_UNIT:
                return raters
            return (Unit(NEW, {owner: rater.rows[owner][:1] * [0, 1]}) for rater in raters)
        found = candidates({owner: self.schemas[owner]} if unit == ROW_UNIT else self.schemas, NEW, rng)
        if unit == PERSON:  # more rows than count, all alike: the worst that a person can have
            return (Unit(NEW, {o: np.repeat(rows, 3, axis=0) for o, rows in one.rows.items()}) for one in found)
        return found

    def pairs(self, view: View, n_pairs: int) -> list[tuple[Unit | None, Unit]]:
        """Pairs of units in which neighbours in a view differ."""
        found = list(itertools.islice(self.candidates(), n_pairs + 1))
        if self.plan.privacy_unit == EVENT_UNIT:
            return list(itertools.pairwise(found))
        if view == "coordinator":
            return [(None, one) for one in found[:n_pairs]]
        return [(found[1], one) for one in [found[0], *found[2:]]]

    def run(self, unit: Unit | None, first: Run | None = None, **options) -> Run:
        """Run the job on the common units and one more."""
        tables = tables_of(self.schemas, [*self.others(), *([] if unit is None else [unit])])
        return asyncio.run(replay(self.plan, tables, first=first, **options))

    def problems(self, view: View, n_pairs: int, **options) -> list[str]:
        """What neighbours show, and where more enters a mechanism than it declares."""
        found, runs = [], {}
        for one, other in self.pairs(view, n_pairs):
            first = runs.get(id(one)) or runs.setdefault(id(one), self.run(one, **options))
            second = self.run(other, first, **options)
            shown = [f"ends with {first.ended}"] if first.ended else differences(first, second, view)
            found += shown
            moves_others = view == "coordinator" and self.matching == "revealed"
            if not shown:
                for shift in shifts_between(first, second):
                    if moves_others and isinstance(shift.release, BY_PLACE):
                        continue
                    if (attained := shift.attained(view)) > 1:
                        found.append(f"{type(shift.release).__name__}: {float(attained)} of what is declared")
        return found


_MORE = {
    **OTHER_WAYS,
    "moments, order 3": replace(VARIANTS["moments"], parameters={"max_rows": 500, "order": 3}),
    "secure-mean, weighted": replace(
        VARIANTS["secure-mean"], parameters={**VARIANTS["secure-mean"].parameters, "weight": 1}, columns=("x0", "code")
    ),
    "matrix-factorization, sgd, vertical, party, one step": replace(
        VARIANTS["matrix-factorization, sgd, vertical, party"],
        parameters={"form": "sgd", "setting": "vertical", "noise": "party", "rank": 1, "steps": 2, "local_steps": 1},
    ),
}
WAYS = {**VARIANTS, **_MORE}
_REVEALED = [name for name, way in VARIANTS.items() if "revealed" in ANALYSES[way.analysis].matching]
_IN_SECRET = [name for name in _REVEALED if name in ANALYSES and "secret" in ANALYSES[name].matching]
_ALL_ROWS = dict(VARIANTS["logistic-regression by gradients"].parameters)
_ALL_ROWS.pop("sampling_rate")
_FIVE = ("one", "two", "three", "four", "five")
REPLAYED = {
    **{name: {"variant": way} for name, way in WAYS.items()},
    **{f"{name}, persons": {"variant": way, "unit": PERSON} for name, way in person_tables.JOBS.items()},
    **{f"{name}, revealed matching": {"variant": VARIANTS[name], "matching": "revealed"} for name in _REVEALED},
    **{f"{name}, secret matching": {"variant": VARIANTS[name], "matching": "secret"} for name in _IN_SECRET},
    "logistic-regression by gradients, secret matching": {
        "variant": replace(VARIANTS["logistic-regression by gradients"], parameters=_ALL_ROWS),
        "matching": "secret",
    },
    "pca, five compute parties": {"variant": VARIANTS["pca"], "members": _FIVE},
    "pattern-count, five compute parties": {"variant": VARIANTS["pattern-count"], "members": _FIVE},
}
"""Name to the arguments of `Replayed`, for every analysis, each of its ways, persons and both kinds of matching."""


def replayed(name: str) -> Replayed:
    return Replayed(**REPLAYED[name])
