"""Members that deviate from the protocol, in jobs of the registry; and what they can tell from what is opened.

A deviation is judged by two runs with the same randomness on tables that differ in one row of one owner. What is opened
without a deviation differs by less than the noise. Where it differs by more than all noise, with a deviation, whoever
deviates and sees the result knows which of the two tables it was.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np
from overlapping_tables import overlapping_tables, secret_job
from registry_jobs import HELPERS, VARIANTS

from analyses.job.job import Job
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, Table
from analyses.registry import analysis_of
from analyses.rows.alignment import LABEL as SAME_ROWS
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import lagrange_weights
from mpc.matching.secret import SecretMatch
from mpc.protocol.operations.inputs import Inputs
from mpc.protocol.operations.noise import Noise
from mpc.protocol.operations.openings import Openings
from mpc.protocol.operations.products import Products
from mpc.protocol.operations.rows import Rows
from mpc.protocol.session import COORDINATOR

LOG2_TAIL = -40.0
"""Noise beyond the bound of this probability counts as impossible."""


@dataclass(frozen=True)
class Case:
    """A way to run an analysis: one line of the table in docs/threat-model.md.

    Attributes:
        name: as the table has it.
        variant: of `registry_jobs`; of a job whose rows are matched in secret, the analysis.
        parameters: changed ones.
        owners: those that bring tables; the victim is among them.
        is_secret: whether rows are matched in secret.
        victim: the owner whose row differs. A product of two owners meets the values of the others.
        row: which of its rows differs; all owners have it.
        line: of the table, where that is another than the name.
        privacy: changes of the privacy target.
    """

    name: str
    variant: str
    parameters: dict
    owners: tuple[str, ...] = ("bank", "hospital", "telco")
    is_secret: bool = False
    victim: str = "telco"
    row: int = 17
    line: str = ""
    privacy: dict = field(default_factory=dict)

    def job(self, **changes) -> Job:
        if self.is_secret:
            return secret_job(self.variant, self.parameters, anyway=True, **changes)
        variant = VARIANTS[self.variant]
        parameters = {**variant.parameters, **self.parameters}
        inputs = [i for i in variant.job().inputs if i.party in self.owners]
        return variant.job(parameters=parameters, inputs=inputs, anyway=True, deadline_s=80_000.0, **changes)

    def tables(self) -> dict[str, Table]:
        found = overlapping_tables(40) if self.is_secret else VARIANTS[self.variant].tables()
        return {party: found[party] for party in self.owners}


FIRST = {"iterations": 2, "sampling_rate": 1.0}
THIRD = {"order": 3, "weight_norm": 2.0, "iterations": 2, "sampling_rate": 1.0}
SKETCHES = {
    "counting": "fm-sketch",
    "counting_options": {"accept_no_protection_against_parties": True, "sketches": 64},
}
JOINT = {"counting_options": {"cells": "joint"}}
CASES = {
    case.name: case
    for case in (
        Case("principal components", "pca", {}),
        Case("second moments", "second-moments", {}),
        Case("low rank", "low-rank", {}),
        Case("low rank, `sketch`", "low-rank by sketch", {}),
        Case("least squares", "least-squares", {}),
        Case("logistic regression by moments", "logistic-regression", {}),
        Case("logistic regression by gradients, order 1", "logistic-regression by gradients", FIRST),
        Case("logistic regression by gradients, order 3", "logistic-regression by gradients", THIRD),
        Case("pattern counts, `mpc`, two owners", "pattern-count", {}, ("bank", "telco")),
        Case("pattern counts, `mpc`, three owners and more", "pattern-count", {}, victim="bank"),
        Case("pattern counts by reports", "pattern-count by reports", {}),
        Case("cross-tables", "cross-table", {}, ("bank", "telco")),
        *(
            Case(name, name, {}, line="joint counts, sums, means")
            for name in ("joint-count", "joint-mean", "joint-sum")
        ),
        Case("circuits with comparisons", "circuit", {}),
        Case("clustering, `mpc`, pairs of owners", "clustering", {}),
        Case("clustering, `mpc`, `joint` cells of three owners and more", "clustering", JOINT, victim="bank"),
        Case("clustering, `ldp`", "clustering by reports", {}),
        Case("clustering, `pattern`", "clustering", {"counting": "pattern"}),
        Case("clustering, `independent`", "clustering", {"counting": "independent"}),
        Case("clustering, `fm-sketch`", "clustering", SKETCHES, privacy={"view": "coordinator"}),
        Case("moments, `mpc`, order 1", "moments", {"order": 1}),
        Case("moments, `mpc`, order 2", "moments", {"order": 2}),
        Case("moments, `mpc`, order 3 and more", "moments", {"order": 3}),
        Case("moments, `laplace`", "moments, laplace", {}),
        Case("moments, `sketch`", "moments, sketch", {}),
        Case("moments, `threshold`", "moments, threshold", {}),
        Case("distribution", "distribution", {}),
        Case("distribution, `sign`", "distribution, sign", {}, line="distribution"),
        Case("distribution, `grid`", "distribution, grid", {}, line="distribution"),
        Case("distribution, `masked`", "distribution, masked", {}),
        *(
            Case(variant, variant, {}, line="matrix factorization")
            for variant in VARIANTS
            if VARIANTS[variant].analysis == "matrix-factorization"
        ),
        Case("sums", "secure-sum", {}),
        Case("means", "secure-mean", {}),
        Case("histograms", "secure-histogram", {}),
        Case("any whose rows are matched in secret", "pca", {"components": 2, "gamma": 64}, is_secret=True, row=1),
    )
}

FRACTIONS = Case(
    "circuits with functions of fractions",
    "circuit",
    {
        "program": [
            *(f"{owner} = column({owner}.code)" for owner in ("bank", "hospital", "telco")),
            "above = add(telco, 9)",
            "share = divide(bank, above, 6)",
            "part = mul(share, hospital)",
            "whole = truncate(part, 3)",
            "open whole = sum(whole)",
        ]
    },
)
"""Beside `CASES`: to what members see it adds masked openings to those of comparisons."""


def plan_of(case: Case, tables: dict[str, Table], *, compute: Sequence[str] = HELPERS, **changes) -> Plan:
    """Return the plan of a job with an epsilon at which an honest answer hides the row.

    Args:
        case: what is asked.
        tables: of the owners.
        compute: who computes, where owners need not: helpers without tables.
        **changes: of the job.
    """
    epsilon = 40.0 if case.parameters is THIRD else 1.0  # with less its noise would be beyond what can be drawn
    privacy = {"epsilon": epsilon, "delta": 1e-5}
    if not case.is_secret:
        privacy = VARIANTS[case.variant].privacy_of(epsilon)
    if case.is_secret:
        changes["compute"] = (*case.owners, *(name for name in compute if name not in HELPERS))  # all owners compute
    elif VARIANTS[case.variant].has_helpers:
        changes["compute"] = tuple(compute)
    changes = {"privacy": {**privacy, **case.privacy}, **changes}
    job = case.job(**changes)
    schemas = [tables[name].schema if name in tables else BlockSchema(party=name) for name in job.members]
    return analysis_of(job).plan(job, schemas)


def with_another_row(tables: dict[str, Table], case: Case) -> dict[str, Table]:
    """Return tables of which the victim's row has each value at the other end of its column's bounds."""
    table = tables[case.victim]
    values = table.values.copy()
    low, high = (np.array([getattr(c, end) for c in table.schema.columns]) for end in ("lower", "upper"))
    values[case.row] = np.where(values[case.row] > (low + high) / 2, low, high)
    return {**tables, case.victim: replace(table, values=values)}


def tail_of(plan: Plan) -> int:
    """Return a bound on the noise of what is opened under shares; 0 where nothing is."""
    releases = [planned.release for planned in plan.releases]
    return max((r.noise_tail_bound(LOG2_TAIL) for r in releases if hasattr(r, "noise_tail_bound")), default=0)


def amount_of(plan: Plan) -> int:
    """Return a number beyond all noise, or an eighth of what the field takes; 0 where nothing is shared."""
    if not plan.n_primes:
        return 0
    return min(1 << tail_of(plan).bit_length() + 4, ResidueField(plan.n_primes).half_order >> 3)


@dataclass(frozen=True)
class Ended:
    """What a run came to: the first array opened to the coordinator, the first error, whose shares were corrected."""

    opened: np.ndarray | None
    error: Exception | None
    wrong: tuple[int, ...] = ()


@contextmanager
def noting_what_opens(wrong: set[int] | None = None) -> Iterator[list[np.ndarray]]:
    """Yield what is opened to the coordinator, array by array, as integers; `wrong` takes senders of wrong shares."""
    opened: list[np.ndarray] = []

    def noted(reveal: Callable) -> Callable:
        async def revealing(self, *arguments, **options):
            found = await reveal(self, *arguments, **options)
            if found is not None and self.me == COORDINATOR:
                opened.append(np.asarray(found.values, dtype=object))
                if wrong is not None:
                    wrong.update(found.wrong)
            return found

        return revealing

    with (
        mock.patch.object(Openings, "open", noted(Openings.open)),
        mock.patch.object(Noise, "open_noisy", noted(Noise.open_noisy)),
    ):
        yield opened


async def run_once(plan: Plan, tables: dict[str, Table]) -> Ended:
    """Run a job with the randomness of every other run."""
    network = local_network(plan, entropy_of=lambda member: InsecureTestEntropy(f"deviation {member}"))
    wrong = set[int]()
    with noting_what_opens(wrong) as opened:
        run = await run_plan(plan, tables, network)
    return Ended(opened[0] if opened else None, run.failures[0] if run.failures else None, tuple(sorted(wrong)))


async def difference(plan: Plan, case: Case, tables: dict[str, Table]) -> int | None:
    """Return by how much the other row moves what is opened; None where no shares are opened."""
    one, other = [await run_once(plan, given) for given in (tables, with_another_row(tables, case))]
    if one.opened is None:
        return None
    return max((abs(int(d)) for d in (one.opened - other.opened).reshape(-1)), default=0)


@contextmanager
def beyond_bounds(member: int, amount: int) -> Iterator[list[int]]:
    """An owner adds large numbers to the values that it shares, of most rows; yields who has dealt a value."""
    dealt: list[int] = []
    checked, deal_rows, own_words = Inputs._checked_input, Rows._deal_rows, SecretMatch._own_words

    def checked_input(self, shape, values, bound):
        integers = checked(self, shape, values, bound)
        if self._name == SAME_ROWS:  # digests of rows, not their values
            return integers
        dealt.append(self.me)
        return lie(integers) if self.me == member else integers

    def lie(integers):
        rows = np.arange(1, len(integers) + 1).reshape(-1, *(1,) * (integers.ndim - 1)) % 7
        return integers.astype(np.int64) + rows * amount

    async def dealing(self, moved, mine, *arguments):
        dealt.append(self.me)
        return await deal_rows(self, moved, (lambda rows: lie(mine(rows))) if self.me == member else mine, *arguments)

    def matched_words(self, mine, *arguments):
        dealt.append(self._c.me)
        return own_words(self, (lambda rows: lie(mine(rows))) if self._c.me == member else mine, *arguments)

    with (
        mock.patch.object(SecretMatch, "_own_words", matched_words),
        mock.patch.object(Inputs, "_checked_input", checked_input),
        mock.patch.object(Rows, "_deal_rows", dealing),
    ):
        yield dealt


@contextmanager
def wrong_products(member: int, errors: Callable[[slice], dict[int, int]]) -> Iterator[list[int]]:
    """A compute party adds to its own shares of intermediate products, so that the products are wrong by as much.

    Args:
        member: which.
        errors: from a segment, element within it to what is added to the product.

    Yields:
        The members that have reduced products.
    """
    reduced: list[int] = []
    reduced_share = Products._reduced_share

    async def reducing(self, first_block, share_of, n_elements, degree):
        me, field, n_parties = self.me, self.field, self._exchange.n_parties
        if self._name == SAME_ROWS:  # products of digests, which are proven before any row is shared
            return await reduced_share(self, first_block, share_of, n_elements, degree)
        reduced.append(me)
        basis = range(1, n_parties + 1)[: degree + 1] if n_parties > degree + 1 else range(1, n_parties + 1)
        weight = dict(zip(basis, lagrange_weights(field, basis), strict=True)).get(me)

        def share_with_errors(segment: slice) -> np.ndarray:
            words = share_of(segment).copy().reshape(field.n_words, -1)
            for element, error in errors(segment).items():
                residues = [
                    np.array([error % p * pow(w, -1, p) % p]) for w, p in zip(weight, field.primes, strict=True)
                ]
                one = words[:, element : element + 1].copy()
                field.accumulate(one, field.pack(residues))
                words[:, element : element + 1] = one
            return words

        lies = me == member and weight is not None
        return await reduced_share(self, first_block, share_with_errors if lies else share_of, n_elements, degree)

    with mock.patch.object(Products, "_reduced_share", reducing):
        yield reduced


def everywhere(error: int, most: int = 1000) -> Callable[[slice], dict[int, int]]:
    """The same error in the first elements of each segment: among them are products of the victim's row."""
    return lambda segment: dict.fromkeys(range(min(most, segment.stop - segment.start)), error)
