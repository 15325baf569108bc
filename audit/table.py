"""The audit targets by name: mechanism and numbers, whose view, and for which ways of which analyses they stand."""

from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from analyses.circuit.plan import sensitivities as program_sensitivities
from analyses.circuit.plan import weights_of
from analyses.clustering.estimators.independent import NoisySizes
from analyses.clustering.estimators.mpc import SCALE
from analyses.clustering.noisy_lloyd import NoisyLloyd
from analyses.clustering.partition_tree import PartitionTree
from analyses.joint_sums.plan import sensitivities
from analyses.logistic_regression.taylor_gradient import TaylorGradient
from analyses.pattern_count.plan import CELL_SENSITIVITY
from analyses.pattern_count.reports import PatternReports
from analyses.power_moments.column_sums import NoisyColumnSums
from analyses.power_moments.reports import MomentReports
from analyses.power_moments.sketch import MomentSketch
from analyses.second_moments.sketch_matrix import SketchMatrix
from audit.additive import (
    AdditiveTarget,
    MechanismRelease,
    PartiesRelease,
    gram_difference,
)
from audit.descents import step_of
from audit.device_descents import DEVICE_DESCENTS
from audit.entry import Entry, Published, both_views, ways_of
from audit.factors import horizontal as horizontal_factors
from audit.factors import vertical as vertical_factors
from audit.faulty_mechanisms import FloatLaplace, FloatWave, SketchWithSharedKeys, TwoViewsOfOneSum
from audit.local import LloydTarget, TreeRelease
from audit.local_responses import LOCAL_RESPONSES
from audit.masked_sums import MASKED_SUMS
from audit.reports import (
    BitsTarget,
    HashingTarget,
    MomentReportsTarget,
    ResponseTarget,
    SampledBitsTarget,
)
from audit.sketches import BlockSigns, CardinalityTarget, MomentSigns, ProjectedRow, SignsTarget
from audit.steps import Record, StepsTarget
from dp.cost.accounting import Adjacency
from dp.cost.views import VIEWS, View
from dp.mechanism.bits import RandomizedBits
from dp.mechanism.bounded_sampling import RATE_UNITS, BoundedPoisson
from dp.mechanism.cardinality import PartitionSketch
from dp.mechanism.gram import NoisyGram
from dp.mechanism.hashing import LocalHashing
from dp.mechanism.norm_proof import MaskedProjections
from dp.mechanism.projection import VARIANCE_UNITS, NoisySketch
from dp.mechanism.response import RandomizedResponse
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.scalar import DiscreteGaussianNoise, DiscreteLaplaceNoise, SkellamNoise
from dp.mechanism.shared_laplace import MEAN_UNIT, SharedLaplace
from dp.mechanism.vector import SharedSkellam, VectorSensitivity

_N, _T = 3, 1  # parties, of which so many collude
_SKETCHED = ("low-rank", "least-squares")


def _vector(
    length: int, moved: dict[View, tuple[int, ...]], party_mu: int, view: View, n_parties: int = _N
) -> AdditiveTarget:
    bounds = {v: VectorSensitivity(sum(d * d for d in moved[v]), sum(map(abs, moved[v]))) for v in VIEWS}
    return AdditiveTarget(PartiesRelease(SharedSkellam(length, bounds, n_parties, _T, party_mu), view, moved[view]))


def _gram(view: View) -> AdditiveTarget:
    mechanism = NoisyGram(n_columns=2, squared_norm_bound=18, n_parties=_N, colluding=_T, party_mu=50)
    leaves = (1, -4) if view == "coalition" else None
    return AdditiveTarget(PartiesRelease(mechanism, view, gram_difference((3, 3), leaves)))


def _cells(view: View) -> AdditiveTarget:
    mechanism = SharedLaplace(6, CELL_SENSITIVITY, _N, _T, int(2 / MEAN_UNIT))
    moved = (0, 1, 0, 0, 0, 0) if view == "coordinator" else (0, 1, 0, -1, 0, 0)
    return AdditiveTarget(PartiesRelease(mechanism, view, moved))


def _row_sums(view: View) -> AdditiveTarget:
    # Two columns in units of a quarter, so B = 8 and c = 4; the row is in a corner, and goes to the opposite one.
    constant, bounds = 4, (4, 4)
    mechanism = SharedSkellam(3, sensitivities(constant, bounds, (1, 1)), _N, _T, 100)
    moved = (constant, 2, 2) if view == "coordinator" else (0, 4, 4)
    return AdditiveTarget(PartiesRelease(mechanism, view, moved))


def _row_count(view: View) -> AdditiveTarget:
    mechanism = SharedLaplace(1, sensitivities(1, (), ()), _N, _T, int(2 / MEAN_UNIT))
    return AdditiveTarget(PartiesRelease(mechanism, view, (1,)))


def _program(view: View) -> AdditiveTarget:
    # A bit and a number from -2 to 3, which has the weight 1 and the bit 3; a row of 1 and 3 becomes one of 0 and -2.
    ranges = ((0, 1), (-2, 3))
    weights = weights_of(ranges)
    mechanism = SharedSkellam(2, program_sensitivities(ranges, weights, (None, None)), _N, _T, 50)
    moved = (weights[0], 3) if view == "coordinator" else (weights[0], 5)
    return AdditiveTarget(PartiesRelease(mechanism, view, moved))


def _memberships(view: View) -> AdditiveTarget:
    moved: dict[View, tuple[int, ...]] = {"coordinator": (SCALE, 0, 0, 0), "coalition": (SCALE, 0, 0, -SCALE)}
    return _vector(4, moved, 50, view)


def _power(view: View) -> AdditiveTarget:
    return _vector(1, {"coordinator": (25,), "coalition": (25,)}, 25, view)


def _three_sums(view: View) -> AdditiveTarget:
    gradient = _gradient(1, 1, "three-sums")
    step = SharedSkellam(3, gradient.sensitivities(), _N, _T, 50)
    # A record of the row (4) and label 1, weight 1: x G, x v, x y G, in the order of what is opened.
    moved = tuple(int(f[0]) * 4 for f in gradient.factors(*_integers(4, 1)))
    replaced = tuple(m - int(f[0]) * -4 for m, f in zip(moved, gradient.factors(*_integers(-4, 0)), strict=True))
    return AdditiveTarget(PartiesRelease(step, view, moved if view == "coordinator" else replaced))


def _integers(product: int, label: int) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    return np.array([product], dtype=object), np.array([label], dtype=object)


def _gradient(n_columns: int, order: int, release: str = "gradient") -> TaylorGradient:
    return TaylorGradient(
        n_columns=n_columns,
        gamma=4 if order == 1 else 2,
        weight_gamma=1,
        squared_row_bound=16 if order == 1 else 4,
        squared_weight_bound=1,
        order=cast(Any, order),
        release=cast(Any, release),
    )


def _steps(view: View, order: int) -> StepsTarget:
    cubic = order == 3
    gradient = _gradient(1 if cubic else 2, order)
    step = SharedSkellam(gradient.n_columns, gradient.sensitivities(), _N, _T, 20_000 if cubic else 150)
    sampling = BoundedPoisson(rate_units=RATE_UNITS // 4 * 3, n_steps=3, most_participations=1)
    row, other = ((2,), (-2,)) if cubic else ((2, 3), (3, -2))
    weights = (1,) if cubic else (1, 0)
    before = None if view == "coordinator" else Record(other, 0 if cubic else 1)
    return StepsTarget(SampledSkellam(step, sampling), gradient, weights, (before, Record(row, 0)), view)


def _additive(
    kind: type[SkellamNoise | DiscreteGaussianNoise | DiscreteLaplaceNoise], parameter: int, moved: int
) -> AdditiveTarget:
    mechanism = kind(1, moved**2, moved, parameter, Adjacency.ADD_OR_REMOVE_ONE)
    return AdditiveTarget(MechanismRelease(mechanism, 1, (moved,)))


def _projections(view: View) -> AdditiveTarget:
    """A row of norm 10 meets factors of 1 in each projection; one that is replaced is the opposite one."""
    moved = 10 if view == "coordinator" else 20
    return AdditiveTarget(MechanismRelease(MaskedProjections(100, 3, 3, 100), 1, (moved,) * 3))


def _independent(view: View) -> AdditiveTarget:
    moved = (1, 0, 0) if view == "coordinator" else (1, -1, 0)
    return AdditiveTarget(MechanismRelease(NoisySizes(3, 10), 2, moved * 2))


def _bits(view: View) -> BitsTarget:
    reports = PatternReports((2, 2, 2), 1, 1, RandomizedBits(Fraction(1, 8)))
    return BitsTarget(reports, (-1, 1) if view == "coordinator" else (0, 1))


def _sampled_bits() -> SampledBitsTarget:
    return SampledBitsTarget(PatternReports((2, 2, 2), 4, 2, RandomizedBits(Fraction(1, 4))))


def _moment_reports(values: tuple[int, int], threshold: int) -> MomentReportsTarget:
    largest = (3, 3)
    return MomentReportsTarget(MomentReports(2, threshold, largest, RandomizedBits(Fraction(3, 20))), values)


def _moment_signs(knows_signs: bool) -> SignsTarget:
    return SignsTarget(MomentSigns(MomentSketch(8, (5, 10), quotient=20)), knows_signs)


def _block_signs() -> SignsTarget:
    return SignsTarget(BlockSigns(_projection(8, 10 * VARIANCE_UNITS), (8, 6)), knows_signs=False)


def _projected(entries: str) -> AdditiveTarget:
    release = ProjectedRow(_projection(8, 10 * VARIANCE_UNITS), SketchMatrix(8, cast(Any, entries)), 16, (4, -5))
    return AdditiveTarget(release)


def _projection(sketch_rows: int, multiplier: int) -> NoisySketch:
    return NoisySketch(sketch_rows, (100, 100), 0, True, _N, _T, multiplier)


def _tree(view: View) -> AdditiveTarget:
    tree = PartitionTree(n_columns=1, width=15, count_variance=Fraction(1), sum_cost=Fraction(1, 2))
    leaves = () if view == "coordinator" else (2,)
    return AdditiveTarget(TreeRelease(tree, (12,), leaves, rows_per_value=60))


def _lloyd(view: View) -> LloydTarget:
    lloyd = NoisyLloyd(n_columns=1, width=400, count_variance=Fraction(2), sum_variance=Fraction(160_000))
    return LloydTarget(lloyd, ((20, 20), (20, 21) if view == "coordinator" else (19, 21)), cells=1)


TARGETS: dict[str, Entry] = {
    "skellam": Entry("count with Skellam noise", (), lambda: _additive(SkellamNoise, 50, 20)),
    "discrete-gaussian": Entry(
        "count with discrete Gaussian noise", (), lambda: _additive(DiscreteGaussianNoise, 100, 20)
    ),
    "discrete-laplace": Entry(
        "count with discrete Laplace noise", (), lambda: _additive(DiscreteLaplaceNoise, 100, 200)
    ),
    **both_views("projections", "masked projections of rows that are proven", (), _projections),
    **both_views(
        "gram",
        "matrix X^T X with Skellam noise",
        (*ways_of(("pca", "second-moments", *_SKETCHED), "mpc"), "logistic-regression:moments"),
        _gram,
    ),
    **both_views("pattern-count", "counts of patterns under shares", ("pattern-count:mpc", "cross-table:mpc"), _cells),
    **both_views("joint-sums", "number of rows and sums", ways_of(("joint-mean", "joint-sum"), "mpc"), _row_sums),
    **both_views("joint-count", "number of rows", ("joint-count:mpc",), _row_count),
    **both_views("circuit", "sums of a program", ("circuit:mpc",), _program),
    **both_views("memberships", "counts of memberships under shares", ("clustering:counting mpc",), _memberships),
    **both_views("moments", "moment under shares", ("moments:mpc",), _power),
    **both_views(
        "logistic",
        "noisy gradients of sampled steps",
        ("logistic-regression:gradient, order 1",),
        lambda v: _steps(v, 1),
    ),
    **both_views(
        "logistic-cubic",
        "the same, sigmoid of order 3",
        ("logistic-regression:gradient, order 3",),
        lambda v: _steps(v, 3),
    ),
    **both_views("logistic-sums", "three sums of one step", ("logistic-regression:three-sums, order 1",), _three_sums),
    **both_views("tree", "leaves of a partition tree", ("clustering:local tree",), _tree),
    **both_views("lloyd", "centre of noisy Lloyd iterations", ("clustering:local lloyd",), _lloyd),
    "sketch-coordinator": Entry(
        "sketch G X by signs, G unknown, seen by the coordinator", ways_of(_SKETCHED, "sketch, signs"), _block_signs
    ),
    "sketch-coalition": Entry(
        "sketch G X by signs, G known, seen by a coalition",
        ways_of(_SKETCHED, "sketch, signs"),
        lambda: _projected("signs"),
    ),
    "sketch-gaussian": Entry(
        "sketch G X by binomial entries, G known, seen by a coalition",
        ways_of(_SKETCHED, "sketch, gaussian"),
        lambda: _projected("gaussian"),
    ),
    "moments-laplace": Entry(
        "sums of owners with discrete Laplace noise, seen by anybody",
        ("moments:laplace",),
        lambda: AdditiveTarget(MechanismRelease(NoisyColumnSums((8, 6), Fraction(5)), 2, (8, 6))),
    ),
    "moments-sketch-coordinator": Entry(
        "sketches of columns by signs, unknown, seen by the coordinator",
        ("moments:sketch",),
        lambda: _moment_signs(knows_signs=False),
    ),
    "moments-sketch-coalition": Entry(
        "sketches of columns by signs, known, seen by a coalition",
        ("moments:sketch",),
        lambda: _moment_signs(knows_signs=True),
    ),
    "moments-large": Entry(
        "reports of moments about a large slot", ("moments:threshold",), lambda: _moment_reports((60, 61), 40)
    ),
    "moments-small": Entry(
        "reports of moments about a small slot", ("moments:threshold",), lambda: _moment_reports((1, 2), 200)
    ),
    **both_views(
        "bits",
        "randomized bits about all slots",
        ("pattern-count:randomized-response", "clustering:counting pattern"),
        _bits,
    ),
    "sampled-bits": Entry(
        "randomized bits about a secret sample of slots, seen by the coordinator",
        ("pattern-count:subsampled", "clustering:counting pattern"),
        _sampled_bits,
        12_000,
    ),
    "response": Entry(
        "randomized response of two owners, seen by anybody",
        ("clustering:counting ldp", "distribution:bins", "distribution:direct"),
        lambda: ResponseTarget(RandomizedResponse(3, Fraction(3, 5)), 2),
    ),
    "hashed-response": Entry(
        "randomized response of a hashed choice, seen by anybody",
        ("clustering:counting ldp",),
        lambda: HashingTarget(LocalHashing(5, RandomizedResponse(4, Fraction(3, 5)), "")),
    ),
    **both_views("independent", "sizes of owners' clusters", ("clustering:counting independent",), _independent),
    **LOCAL_RESPONSES,
    "cardinality": Entry(
        "cardinality sketches of two parties, seen by the coordinator",
        ("clustering:counting fm-sketch",),
        lambda: CardinalityTarget(PartitionSketch(1, 32, 2, own_phantoms=5, shared_phantoms=5, floor=2)),
    ),
    **MASKED_SUMS,
    **both_views(
        "factors",
        "two rounds of a factorization about one user, 3 of 4 members survive",
        ("matrix-factorization:horizontal",),
        horizontal_factors,
    ),
    **both_views(
        "factors-vertical",
        "a sweep of a factorization about one rating, 3 of 4 members survive",
        ("matrix-factorization:vertical",),
        vertical_factors,
    ),
    **{
        name: entry
        for setting, unit in (("horizontal", "user"), ("vertical", "rating"))
        for noise, whose in (("once", "of the masked sum, 3 of 4 members survive"), ("party", "of each party"))
        for name, entry in both_views(
            f"descent-{setting}-{noise}",
            f"a step of a descent on a sample about one {unit}, noise {whose}",
            (f"matrix-factorization:sgd, {setting}, {noise}",),
            lambda view, setting=setting, noise=noise: step_of(setting, noise, view),  # type: ignore[misc]
        ).items()
    },
    **both_views(
        "descent-final",
        "a final step of an owner's items on a sample, about one rating",
        ("matrix-factorization:sgd, vertical, once", "matrix-factorization:sgd, vertical, party"),
        lambda view: step_of("vertical", "party", view, "final"),
    ),
    **DEVICE_DESCENTS,
}
"""Name on the command line to what is audited: the audit must not beat it, and must beat it with less noise."""

PUBLISHED: dict[str, Published] = {
    "faulty-masked-sum": Published("sum that is sent in two noisy versions", 2_000_000, TwoViewsOfOneSum),
    "faulty-sketch": Published("cardinality sketches of parties with shared keys", 2_000_000, SketchWithSharedKeys),
    "faulty-float-wave": Published("the square wave in floating point", 20_000, FloatWave),
    "faulty-float-laplace": Published("numpy's floating-point Laplace noise", 20_000, FloatLaplace),
}
"""Mechanisms with known faults, whose claims the audit must beat without knowing the fault."""
