"""All small tables whose persons have up to two rows: no person moves a release by more than its event states.

Each analysis is taken by its integer arithmetic: the sums that are opened, before noise. What is compared are the sums
of `dp.cost.accounting.SkellamDpEvent`, with the noise of the release, or the ratio of a discrete Gaussian one.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, skellam

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.logistic_regression.taylor_gradient import TaylorGradient
from analyses.pattern_count.plan import CELL_SENSITIVITY
from analyses.power_moments.sensitivity import power_sensitivity
from analyses.sums.parameters import TableSumParams
from analyses.sums.plan import PERSON, PERSON_AT_PARTY, _sensitivities
from analyses.sums.row_vectors import BinnedRows, ScaledRows, WeightedRows
from dp.cost.accounting import ORDERS, Adjacency
from dp.cost.events.discrete_gaussian import DiscreteGaussianDpEvent
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent
from dp.cost.events.record import rdp_of
from dp.cost.events.sampling import PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamVectorDpEvent
from dp.cost.group import for_rows
from dp.cost.views import VIEWS, Protected
from dp.mechanism.bounded_sampling import BoundedPoisson
from dp.mechanism.gram import GramSensitivity, NoisyGram
from dp.mechanism.projection import VARIANCE_UNITS, NoisySketch
from dp.mechanism.sampled import SampledSkellam
from dp.mechanism.vector import SharedSkellam

K = 2


def balls(squared_bound, n, least=None):
    reach = int(squared_bound**0.5)
    grid = itertools.product(range(-reach if least is None else least, reach + 1), repeat=n)
    return [np.array(p) for p in grid if sum(x * x for x in p) <= squared_bound]


def groups(contributions):
    """What a person with up to K rows adds, each row one of these vectors; as a set of vectors."""
    found = {tuple(np.zeros_like(contributions[0]).tolist())}
    for n in range(1, K + 1):
        for chosen in itertools.combinations_with_replacement(contributions, n):
            found.add(tuple(np.sum(chosen, axis=0).tolist()))
    return np.array(sorted(found))


def check(event, vectors, mu, replaced):
    """Compare all differences with the event; return the part of `squares` that is attained."""
    moves = vectors if not replaced else (vectors[:, None] - vectors[None]).reshape(-1, vectors.shape[1])
    weights = 1 / np.asarray(mu, dtype=float)
    sums = {
        "squares": (moves**2 * weights).sum(axis=1).max(),
        "squares_second": (moves**2 * weights**2).sum(axis=1).max(),
        "sizes": (np.abs(moves) * weights).sum(axis=1).max(),
        "sizes_second": (np.abs(moves) * weights**2).sum(axis=1).max(),
    }
    for name, found in sums.items():
        assert found <= float(getattr(event, name)) * (1 + 1e-12), name
    return sums["squares"] / float(event.squares)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("n", "bound"), [(1, 4), (2, 2), (2, 5), (3, 2)])
def test_gram_matrices(view, n, bound):
    mechanism = NoisyGram(n, bound, 3, 1, 10, Protected(PERSON, K))
    upper = np.triu_indices(n)
    diagonal = upper[0] == upper[1]
    mu = np.where(diagonal, 1.0, 0.5) * mechanism.unknown_mu(view)
    vectors = groups([np.outer(x, x)[upper] for x in balls(bound, n)])
    attained = check(mechanism.events(view)[0], vectors, mu, view == "coalition")
    assert attained == pytest.approx(1.0) or (n, bound, view) == (2, 5, "coalition") or (n, bound) == (3, 2)
    assert attained > 0.7


@pytest.mark.parametrize("most", [1, K])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("n", "bound"), [(2, 2), (2, 4)])
def test_moments_of_labelled_rows(view, n, bound, most):
    """Rows (features, label, constant) of logistic regression: the label is -1 or 1, the constant 1."""
    mechanism = NoisyGram(n + 2, bound + 2, 3, 1, 10, Protected(PERSON, most))
    upper = np.triu_indices(n + 2)
    mu = np.where(upper[0] == upper[1], 1.0, 0.5) * mechanism.unknown_mu(view)
    rows = [np.array([*x, label, 1]) for x in balls(bound, n) for label in (-1, 1)]
    products = [np.outer(z, z)[upper] for z in rows]
    vectors = groups(products) if most == K else np.array([0 * products[0], *products])
    assert check(mechanism.events(view)[0], vectors, mu, view == "coalition") > 0.6


def test_one_row_of_a_person_costs_what_a_record_does_and_k_rows_less_than_general_group_privacy():
    record = NoisyGram(3, 100, 3, 1, 200_000)
    person = NoisyGram(3, 100, 3, 1, 200_000, Protected(PERSON, 4))
    assert (
        NoisyGram(3, 100, 3, 1, 200_000, Protected(PERSON, 1)).events("coalition")[0] == record.events("coalition")[0]
    )
    epsilon, delta = record.epsilon("coalition", 1e-9).epsilon, 1e-9
    by_groups = 4 * np.exp(3 * epsilon) * delta  # k e^((k - 1) epsilon) delta, at k epsilon
    assert person.epsilon("coalition", by_groups).epsilon < 4 * epsilon


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("order", "release"), [(1, "gradient"), (1, "three-sums"), (3, "gradient")])
def test_gradients(view, order, release):
    gradient = TaylorGradient(
        n_columns=2, gamma=2, weight_gamma=1, squared_row_bound=4, squared_weight_bound=4, order=order, release=release
    )
    step = SharedSkellam(2 * gradient.n_sums, gradient.sensitivities(), 3, 1, 10)
    full = SampledSkellam(step, BoundedPoisson.with_rate(1.0, 1), Protected(PERSON, K))
    (event,) = full.events(view)
    if view == "coordinator":
        assert event.step.rate == 1
        event = event.step.release
    best = 0.0
    for w in balls(4, 2)[::3]:
        rows = []
        for x, y in itertools.product(balls(4, 2), (0, 1)):
            v = np.array([x @ w])
            factors = gradient.factors(v, np.array([y]), v**3)
            rows.append(np.concatenate([x * int(f[0]) for f in factors]))
        unique = [np.array(r) for r in sorted({tuple(r.tolist()) for r in rows})]
        vectors = groups(unique)
        best = max(best, check(event, vectors, np.full(vectors.shape[1], step.unknown_mu(view)), view == "coalition"))
    assert best > 0.3


@pytest.mark.parametrize("view", VIEWS)
def test_patterns_and_moments(view):
    cells = [np.eye(3, dtype=int)[i] for i in range(3)]
    counts = SharedSkellam(3, CELL_SENSITIVITY, 3, 1, 10, protected=Protected(PERSON, K))
    vectors = groups(cells)
    assert check(counts.events(view)[0], vectors, np.full(3, counts.unknown_mu(view)), view == "coalition") == 1.0
    power = SharedSkellam(1, power_sensitivity((2, 1), 3), 3, 1, 10, protected=Protected(PERSON, K))
    vectors = groups([np.array([x**3]) for x in range(4)])
    assert check(power.events(view)[0], vectors, np.full(1, power.unknown_mu(view)), view == "coalition") == 1.0


def column(lower, upper):
    return ColumnSchema(name="x", lower=lower, upper=upper)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("unit", [PERSON, PERSON_AT_PARTY])
@pytest.mark.parametrize(
    "rows",
    [
        ScaledRows((1.0, 1.0), 2, None, is_non_negative=True),
        ScaledRows((1.0, 1.0), 2, 1.2, is_non_negative=False),
        WeightedRows(ScaledRows((1.0,), 1, None, is_non_negative=False), 1, 2),
        BinnedRows((0.0, 1.0, 2.0)),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_sums(view, unit, rows):
    """Two parties, of which each lets one row count (person), or the larger of them two (person at a party)."""
    if isinstance(rows, BinnedRows):
        grid = [np.array([[x]]) for x in (-1.0, 0.5, 1.5)]
    else:
        least = 0.0 if rows.bound.is_non_negative else -1.0
        grid = [np.array([p]) for p in itertools.product(np.arange(least, 2.01, 0.5), repeat=2)]
        if isinstance(rows, ScaledRows):
            grid = [p.clip(least, 1.0) for p in grid]
    vectors = groups([np.array(one) for one in sorted({tuple(rows.of_rows(p)[0].sum(axis=0).tolist()) for p in grid})])
    params = TableSumParams(max_rows=10, units=2, unit=unit)
    declared = {"a": 1, "b": 1} if unit == PERSON else {"a": 1, "b": 2}
    moved = _sensitivities(rows, params, 2, declared)[view]
    assert moved.unit == ("person" if unit == PERSON else "person in one party's table")
    event = SkellamDpEvent.of_vector(moved.squared_l2, moved.l1, Fraction(1), moved.adjacency)
    attained = check(event, vectors, np.ones(vectors.shape[1]), view == "coalition")
    assert attained > 0.45


@pytest.mark.parametrize("view", VIEWS)
def test_sketches(view):
    """Every matrix of one row of signs and rows of the table up to it: parallel columns attain the bound."""
    mechanism = NoisySketch(2, (2, 2), 1, True, 3, 1, VARIANCE_UNITS, Protected(PERSON, K))
    event = mechanism.events(view)[-1]
    blocks = [np.append(x, 1) for x in balls(2, 1)] if view == "coordinator" else balls(2, 1)
    worst = 0
    for columns in itertools.product(itertools.product((-1, 1), repeat=2), repeat=K):
        g = np.array(columns).T
        for rows in itertools.product(blocks, repeat=K):
            if view == "coordinator":
                worst = max(worst, (np.abs(g @ np.array(rows)) ** 2).sum())
                continue
            for others in itertools.product(blocks, repeat=K):
                worst = max(worst, ((g @ (np.array(rows) - np.array(others))) ** 2).sum())
    assert worst <= event.squares * mechanism.variance(2)
    assert worst >= 0.5 * event.squares * mechanism.variance(2)


def exact_sampled_divergence(order, rate, most, sensitivity, mu):
    """Renyi divergences, in both directions, of a sum over a sample of a person's rows plus Skellam noise, exactly."""
    support = np.arange(-400, 401)
    without = skellam.pmf(support, mu, mu)
    with_rows = sum(binom.pmf(j, most, rate) * skellam.pmf(support - j * sensitivity, mu, mu) for j in range(most + 1))
    found = []
    for p, q in ((without, with_rows), (with_rows, without)):
        seen = (p > 1e-100) & (q > 1e-100)
        found.append(np.log(np.exp(order * np.log(p[seen]) + (1 - order) * np.log(q[seen])).sum()) / (order - 1))
    return max(found)


@pytest.mark.parametrize(("rate", "most"), [(0.05, 2), (0.3, 2), (0.2, 4)])
def test_samples_of_a_persons_rows(rate, most):
    sampling = BoundedPoisson.with_rate(rate, 1)
    release = SkellamDpEvent(
        Fraction(4, 50), Fraction(4, 2500), Fraction(2, 50), Fraction(2, 2500), Adjacency.ADD_OR_REMOVE_ONE
    )
    event = sampling.sampled_event(release, most)
    assert (event.n_steps, event.most_participations) == (1, 1)
    assert 0 <= event.step.rate - (1 - (1 - sampling.rate) ** most) < Fraction(1, 1 << 32)
    curve = rdp_of(event)
    for order in (2, 3, 8):
        true = exact_sampled_divergence(order, float(sampling.rate), most, 2, 50)
        assert true <= curve[int(np.flatnonzero(order == ORDERS)[0])]


def test_who_knows_the_coins_sees_a_person_in_no_more_steps_than_each_of_its_rows():
    sampling = BoundedPoisson.with_rate(0.3, 10, 3)
    release = SkellamDpEvent(Fraction(1), Fraction(1), Fraction(1), Fraction(1), Adjacency.REPLACE_ONE)
    event = sampling.participation_event(release, 4)
    assert (event.squares, event.sizes) == (3 * 16, 3 * 4)


def test_a_person_moves_as_many_numbers_as_its_rows_together_and_as_often_as_it_is_in_a_step():
    sampling = BoundedPoisson.with_rate(0.3, 10, 3)
    sums = SkellamDpEvent(Fraction(1), Fraction(1), Fraction(1), Fraction(1), Adjacency.REPLACE_ONE)
    release = SkellamVectorDpEvent.knowing(sums, 5, Fraction(7))
    once = for_rows(release, 4)
    assert (once.squares, once.sizes, once.n_moved, once.least_mu) == (16, 4, 20, 7)
    assert for_rows(release, 1) == release
    event = sampling.participation_event(release, 4)
    assert (event.squares, event.n_moved, event.least_mu) == (3 * 16, 3 * 20, 7)


def test_events_of_other_noise_have_no_cost_of_a_group():
    gaussian = DiscreteGaussianDpEvent(Fraction(1, 2), Adjacency.REPLACE_ONE)
    laplace = DiscreteLaplaceDpEvent(3, Fraction(5), Adjacency.REPLACE_ONE)
    assert for_rows(gaussian, 3).squares == Fraction(9, 2)
    assert for_rows(laplace, 3).l1_sensitivity == 9
    with pytest.raises(TypeError, match="PoissonSampledDpEvent"):
        for_rows(
            PoissonSampledDpEvent(GramSensitivity.of(1, 1, Adjacency.ADD_OR_REMOVE_ONE).event(2), Fraction(1, 2)), 2
        )
    with pytest.raises(ValueError, match="at least one row"):
        for_rows(gaussian, 0)


def test_a_table_says_whose_its_rows_are_exactly_if_its_schema_does():
    schema = BlockSchema(party="bank", columns=(column(0.0, 1.0),), most_rows_per_person=2)
    with pytest.raises(ValueError, match="must name the persons of its rows if and only if its schema says so"):
        Table(schema, np.zeros((3, 1)))
