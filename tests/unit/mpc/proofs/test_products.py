import numpy as np
import pytest
from deviations import wrong_products
from sharings import corrupt
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import InconsistentSharesError, LocalFaultError, PeerError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.proofs import products as proven
from mpc.proofs.folding import FEW_NUMBERS, ONE_IN
from mpc.proofs.products import ProvenComputation
from mpc.protocol.computation import Computation
from mpc.protocol.reduction import SEGMENT
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import concatenate

X, Y = np.arange(-10, 30), np.arange(40) % 7
FIELD = ResidueField(3)


async def fourth_powers(c, mine):
    """(x^2)^2 y and x y of two owners, in three dependent multiplications and one beside them."""
    shared = await c.inputs({2: X.shape, 3: Y.shape}, mine, bound=40)
    x, y = shared[2], shared[3]
    squares = await c.multiply(x, x)
    fourths = await c.multiply(squares, squares)
    fifths = await c.multiply(fourths, y)
    return await c.open(fifths.sum() + (await c.multiply(x, y)).sum())


RIGHT = int((X**4 * Y).sum() + (X * Y).sum())


def run(program=fourth_powers, n_parties=3, t=1, kind=ProvenComputation, fault=None, values=None, n_owners=0):
    options = {"fault": fault} if fault else {}
    network = LocalNetwork(
        local_names(n_parties, n_owners),
        deadline_s=10,
        entropy_of=lambda m: InsecureTestEntropy(f"member {m}"),
        **options,
    )
    given = {2: X, 3: Y} if values is None else values
    ends = run_in_virtual_time(run_program(network, program, given, field=FIELD, n_parties=n_parties, t=t, kind=kind))
    return ends, network


def opened_to_the_coordinator(network):
    return [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 2), (6, 2), (7, 3)])
def test_answers_are_right_and_all_products_are_proven_before_the_opening(n_parties, t):
    ends, network = run(n_parties=n_parties, t=t)
    assert int(ends[COORDINATOR].values) == RIGHT
    stages = [m.stage for m in network.transcript]
    assert stages.count("computation/proof opened") == n_parties * (n_parties - 1)
    assert stages.index("computation/proof opened") < stages.index("computation/opening 0")


@pytest.mark.parametrize("n", [2000, 100_000])
def test_proofs_add_an_eighth_of_a_word_per_product_at_most_or_a_few_kilobytes(n):
    sent = {}
    for kind in (Computation, ProvenComputation):
        values = np.arange(n) % 5

        async def squares(c, mine):
            x = await c.input(2, (n,), mine, bound=10)
            return await c.open((await c.multiply(x, x)).sum())

        ends, network = run(squares, kind=kind, values={2: values})
        assert int(ends[COORDINATOR].values) == int((values**2).sum())
        sent[kind] = network.sent_bytes
    for party in (1, 2, 3):
        added = sent[ProvenComputation][party] - sent[Computation][party]
        assert added < 8 * max(FEW_NUMBERS, n / ONE_IN) + 6000
    assert sent[ProvenComputation][COORDINATOR] == sent[Computation][COORDINATOR] == 0


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2), (4, 1)])
@pytest.mark.parametrize("reduction", [0, 1, 2, 3])
@pytest.mark.parametrize("liar", [1, 3])
def test_a_wrong_product_in_any_reduction_ends_the_job_and_names_the_party(n_parties, t, reduction, liar):
    """The attack: a party adds to its share of one intermediate product."""
    errors = iter([{17: 1 << 20} if number == reduction else {} for number in range(4)])
    with wrong_products(liar, lambda segment: next(errors, {})):
        ends, network = run(n_parties=n_parties, t=t)
    for party in range(1, n_parties + 1):
        assert isinstance(ends[party], PeerViolationError)
        assert ends[party].member == liar
    assert isinstance(ends[COORDINATOR], PeerError)
    assert not opened_to_the_coordinator(network)


def test_the_same_deviation_opens_a_wrong_value_where_nothing_is_proven():
    errors = iter([{17: 1 << 20}])
    with wrong_products(1, lambda segment: next(errors, {})):
        ends, _ = run(kind=Computation)
    assert int(ends[COORDINATOR].values) != RIGHT


def test_errors_of_two_parties_that_cancel_in_the_product_harm_nothing():
    """The product is what is checked: it is right here, and so is the answer."""
    one, other = iter([{17: 5}]), iter([{17: -5}])
    with wrong_products(1, lambda s: next(one, {})), wrong_products(2, lambda s: next(other, {})):
        ends, _ = run(n_parties=5, t=2)
    assert int(ends[COORDINATOR].values) == RIGHT


def test_two_parties_whose_errors_do_not_cancel_are_found():
    one, other = iter([{17: 5}]), iter([{17: -6}])
    with wrong_products(1, lambda s: next(one, {})), wrong_products(2, lambda s: next(other, {})):
        ends, _ = run(n_parties=5, t=2)
    assert all(isinstance(ends[party], PeerViolationError) and ends[party].member in (1, 2) for party in range(1, 6))


@pytest.mark.parametrize("quiet", [1, 3])
def test_who_does_not_help_to_name_a_party_is_not_named_in_its_place(quiet):
    """A wrong product ends the job in any case; the second opening only says whose it is."""

    def fault(message):
        is_second = message.stage == "computation/proof opened" and message.sequence == 1
        return () if is_second and message.sender == quiet else (message,)

    errors = iter([{17: 1}])
    with wrong_products(1, lambda segment: next(errors, {})):
        ends, network = run(fault=fault)
    for party in {1, 2, 3} - {quiet}:
        assert isinstance(ends[party], InconsistentSharesError)
        assert "did not help" in str(ends[party])
    assert not opened_to_the_coordinator(network)


def altered(stage, sender, receiver, change):
    def fault(message):
        is_it = (message.stage, message.sender, message.receiver) == (stage, sender, receiver)
        return (message.altered(change(message.array)),) if is_it and message.sequence == 1 else (message,)

    return fault


@pytest.mark.parametrize(("n_parties", "t"), [(4, 1), (5, 1), (6, 2)])
def test_a_product_dealt_on_no_polynomial_of_degree_t_ends_the_job(n_parties, t):
    """One receiver of a fourth power gets another share. Among 2t + 1 parties it would be another product instead."""
    fault = altered("computation/products", 1, n_parties, lambda words: corrupt(words, 2, 5, FIELD))
    ends, network = run(n_parties=n_parties, t=t, fault=fault)
    assert all(isinstance(ends[party], InconsistentSharesError) for party in range(1, n_parties + 1))
    assert not opened_to_the_coordinator(network)


@pytest.mark.parametrize("liar", [1, 2, 3])
def test_among_three_a_product_dealt_to_one_of_the_others_wrongly_is_a_wrong_product(liar):
    receiver = liar - 1 or 3  # the one that does not derive its share
    fault = altered("computation/products", liar, receiver, lambda words: corrupt(words, 0, 3, FIELD))
    ends, network = run(fault=fault)
    assert any(isinstance(ends[p], PeerViolationError | InconsistentSharesError) for p in (1, 2, 3))
    assert all(isinstance(ends[p], Exception) for p in (1, 2, 3))
    assert not opened_to_the_coordinator(network)


@pytest.mark.parametrize("lost", [4, 5])
def test_all_parties_are_needed_however_many_there_are(lost):
    def fault(message):
        return () if message.sender == lost and message.stage == "computation/products" else (message,)

    ends, network = run(n_parties=5, t=1, fault=fault)
    assert all(isinstance(ends[party], PeerError) for party in (1, 2, 3))
    assert not opened_to_the_coordinator(network)


@pytest.mark.parametrize("degree", [2, 3, 5, 8])
def test_polynomials_are_proven(degree):
    coefficients = [3, 0, *range(1, degree)]

    async def program(c, mine):
        x = await c.input(2, (9,), mine, bound=10)
        return await c.open(await c.polynomial(x, coefficients))

    values = np.arange(9) - 4
    ends, network = run(program, values={2: values})
    expected = sum(k * values.astype(object) ** i for i, k in enumerate(coefficients))
    np.testing.assert_array_equal(ends[COORDINATOR].values, expected.astype(int))
    assert "computation/proof opened" in {m.stage for m in network.transcript}


@pytest.mark.parametrize(
    "reduction",
    [lambda c, x: c.reduce(x * x), lambda c, x: c.reduce_all([x * x, x * x])],
    ids=["reduce", "reduce_all"],
)
def test_what_is_not_proven_is_refused(reduction):
    async def program(c, mine):
        x = await c.input(2, X.shape, mine, bound=40)
        return await reduction(c, x)

    ends, _ = run(program)
    assert all(isinstance(end, LocalFaultError) and "use `multiply`" in str(end) for end in ends.values())


async def moments_of_rows(c, mine):
    """x' x, x' y and x . y of a table of two owners, as sums that are reduced once."""
    shared = await c.inputs({2: (40, 3), 3: (40, 2)}, mine, bound=40)
    x, y = shared[2], shared[3]
    gram, product = c.gram_sum(3), c.product_sum(3, 2)
    for rows in (slice(0, 25), slice(25, 40)):
        await gram.add([x[rows]])
        await product.add(x[rows].T, y[rows])
    one = await c.dot(x[:, 0], y[:, 0])
    whole, other = await c.gram(x), await c.matmul(x.T, y)
    parts = [await gram.triangle(), *(a.reshape(-1) for a in (await product.total(), one, whole, other))]
    assert {part.degree for part in parts} == {c.product_degree}
    return await c.open(concatenate(parts))


TABLES = {2: np.arange(120).reshape(40, 3) % 11 - 5, 3: np.arange(80).reshape(40, 2) % 7 - 3}
X_BLOCK, Y_BLOCK = TABLES[2], TABLES[3]
GRAM, CROSS = X_BLOCK.T @ X_BLOCK, X_BLOCK.T @ Y_BLOCK
MOMENTS = [*GRAM[np.triu_indices(3)], *CROSS.reshape(-1), CROSS[0, 0], *GRAM.reshape(-1), *CROSS.reshape(-1)]


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2), (4, 1)])
def test_sums_of_products_have_degree_t_and_are_proven(n_parties, t):
    ends, network = run(moments_of_rows, n_parties=n_parties, t=t, values=TABLES)
    np.testing.assert_array_equal(ends[COORDINATOR].values, MOMENTS)
    stages = [m.stage for m in network.transcript]
    assert stages.count("computation/proof opened") == n_parties * (n_parties - 1)
    assert stages.index("computation/proof opened") < stages.index("computation/opening 0")


@pytest.mark.parametrize("reduction", range(5))
@pytest.mark.parametrize("liar", [1, 3])
def test_a_wrong_sum_in_any_entry_ends_the_job_and_names_the_party(reduction, liar):
    errors = iter([{0: 1 << 20} if number == reduction else {} for number in range(5)])
    with wrong_products(liar, lambda segment: next(errors, {})):
        ends, network = run(moments_of_rows, values=TABLES)
    for party in (1, 2, 3):
        assert isinstance(ends[party], PeerViolationError)
        assert ends[party].member == liar
    assert not opened_to_the_coordinator(network)


def test_sums_of_many_factors_are_reduced_and_proven_in_parts(monkeypatch):
    monkeypatch.setattr("mpc.proofs.proven_sums.MOST_KEPT", 60)
    ends, network = run(moments_of_rows, values=TABLES)
    np.testing.assert_array_equal(ends[COORDINATOR].values, MOMENTS)
    assert sum(m.stage == "computation/proof opened" for m in network.transcript) > 3 * 6


def test_sums_of_nothing_are_zero_and_need_no_proof():
    async def program(c, mine):
        x = await c.input(2, (0, 2), mine, bound=40)
        gram = c.gram_sum(2)
        await gram.add([x])
        return await c.open(concatenate([await gram.triangle(), (await c.matmul(x.T, x)).reshape(-1)]))

    ends, network = run(program, values={2: np.zeros((0, 2), dtype=int)})
    np.testing.assert_array_equal(ends[COORDINATOR].values, np.zeros(7))
    assert not any("proof" in m.stage for m in network.transcript)


def test_a_sum_of_factors_that_are_products_themselves_is_refused():
    async def program(c, mine):
        x = await c.input(2, X.shape, mine, bound=40)
        return await c.dot(x * x, x)

    ends, _ = run(program, n_parties=7)
    assert all(isinstance(end, LocalFaultError) and "degree t" in str(end) for end in ends.values())


@pytest.mark.parametrize(("n_parties", "t", "wrong"), [(3, 1, None), (5, 2, None), (4, 1, (2,)), (7, 2, (2,))])
def test_a_wrong_share_at_an_opening_is_found_and_named_where_that_can_be_told(n_parties, t, wrong):
    def fault(message):
        is_it = message.sender == 2 and "opening 0" in message.stage
        return (message.altered(corrupt(message.array, 0, 0, FIELD)),) if is_it else (message,)

    ends, _ = run(n_parties=n_parties, t=t, fault=fault)
    if wrong is None:
        assert isinstance(ends[COORDINATOR], InconsistentSharesError)
    else:
        assert int(ends[COORDINATOR].values[()]) == RIGHT
        assert ends[COORDINATOR].wrong == wrong


@pytest.mark.parametrize(("n_parties", "t"), [(4, 1), (7, 2)])
def test_nothing_is_opened_without_the_shares_of_all(n_parties, t):
    """Whoever sent the others could choose what is opened."""

    def fault(message):
        return () if message.sender == 2 and "opening 0" in message.stage else (message,)

    ends, _ = run(n_parties=n_parties, t=t, fault=fault)
    assert isinstance(ends[COORDINATOR], PeerError)


def test_a_factor_that_is_a_product_itself_is_refused():
    async def program(c, mine):
        x = await c.input(2, X.shape, mine, bound=40)
        return await c.multiply(x * x, x)

    ends, _ = run(program, n_parties=7)
    assert all(isinstance(end, LocalFaultError) and "degree t" in str(end) for end in ends.values())


def test_broadcast_and_public_factors_and_empty_ones():
    async def program(c, mine):
        x = await c.input(2, X.shape, mine, bound=40)
        table = await c.multiply(x[:5, None], x[None, 5:9])
        public = await c.multiply(table, c.public(np.arange(4)))
        nothing = await c.multiply(x[:0], x[:0])
        assert nothing.shape == (0,)
        return await c.open(public)

    ends, network = run(program)
    np.testing.assert_array_equal(ends[COORDINATOR].values, np.outer(X[:5], X[5:9]) * np.arange(4))
    assert {m.stage for m in network.transcript} >= {"computation/proof opened"}


def test_a_computation_beside_another_proves_its_products_as_well():
    async def program(c, mine):
        x = await c.input(2, X.shape, mine, bound=40)
        other = c.beside("other")
        squares = await other.multiply(x, x)
        await other.check_products()
        return await c.open(squares)

    ends, network = run(program)
    np.testing.assert_array_equal(ends[COORDINATOR].values, X**2)
    assert "other/proof opened" in {m.stage for m in network.transcript}


def test_many_products_are_proven_in_parts(monkeypatch):
    monkeypatch.setattr(proven, "MOST_PENDING", 100)

    async def program(c, mine):
        x = await c.input(2, X.shape, mine, bound=40)
        for _ in range(7):
            x = await c.multiply(x, c.public(np.ones(40, dtype=int)) + x * 0)
        return await c.open(x)

    ends, network = run(program)
    np.testing.assert_array_equal(ends[COORDINATOR].values, X)
    assert sum(m.stage == "computation/proof opened" for m in network.transcript) == 3 * 6


def test_segments_of_several_reductions_follow_each_other():
    n = SEGMENT + 100

    async def program(c, mine):
        x = await c.input(2, (n,), mine, bound=3)
        squares = await c.multiply(x, x)
        return await c.open((await c.multiply(squares, x)).sum())

    values = np.arange(n) % 4 - 1
    ends, _ = run(program, values={2: values})
    assert int(ends[COORDINATOR].values) == int((values**3).sum())


def test_double_sharings_are_not_used(monkeypatch):
    monkeypatch.setattr("mpc.protocol.operations.products.double_sharings_win", lambda *public: True)
    ends, network = run()
    assert int(ends[COORDINATOR].values) == RIGHT
    assert not any("masked products" in m.stage for m in network.transcript)


def test_owners_without_shares_take_no_part_in_proofs():
    async def program(c, mine):
        x = await c.input(4, X.shape, mine, bound=40)
        return await c.open(await c.multiply(x, x))

    ends, network = run(program, values={4: X}, n_owners=1)
    np.testing.assert_array_equal(ends[COORDINATOR].values, X**2)
    assert 4 not in {m.receiver for m in network.transcript if "proof" in m.stage or "coin" in m.stage}
