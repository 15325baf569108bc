"""Comparisons whose masks are proven: right answers, lies about bits and openings, and the numbers of the proof."""

import math
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from deviations import wrong_products
from lying_dealers import joined, with_another_residue
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import InconsistentSharesError, LocalFaultError, PeerError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.proofs import proven_bits
from mpc.proofs.norm_bound import N_PROJECTIONS
from mpc.proofs.products import ProvenComputation
from mpc.proofs.proven_bits import DISTANCE, LOG2_MASK, MOST_ROWS, WIDTH, SignBound, field_of_signs, rows_of
from mpc.protocol.computation import Computation
from mpc.protocol.session import COORDINATOR

X, Y = np.array([-9, -1, 0, 3, 9, 4]), np.array([4, -1, 0, -3, 9, 5])
FIELD = ResidueField(3)


def run(program, n_parties=3, t=1, kind=ProvenComputation, fault=None, n_owners=0, seed="", field=FIELD):
    options = {"fault": fault} if fault else {}
    network = LocalNetwork(
        local_names(n_parties, n_owners),
        deadline_s=10,
        entropy_of=lambda m: InsecureTestEntropy(f"member {m}{seed}"),
        **options,
    )

    async def member(c, mine):
        given = await c.inputs({2: X.shape, 3: Y.shape}, mine, bound=9)
        return await c.open(await program(c, given[2], given[3]))

    ends = run_in_virtual_time(
        run_program(network, member, {2: X, 3: Y}, field=field, n_parties=n_parties, t=t, kind=kind)
    )
    return ends, network


async def less(c, x, y):
    return await c.less(x, y)


def answers_of(ends):
    assert not isinstance(ends[COORDINATOR], Exception), ends
    return ends[COORDINATOR].values


ROSTERS = [(3, 1, 1), *(pytest.param(n, t, 0, marks=pytest.mark.slow) for n, t in ((4, 1), (5, 2)))]


@pytest.mark.parametrize(("n_parties", "t", "n_owners"), ROSTERS)
def test_integers_compare_as_in_python(n_parties, t, n_owners):
    ends, network = run(less, n_parties, t, n_owners=n_owners)
    assert answers_of(ends).tolist() == (X < Y).tolist()
    opened = [m.stage for m in network.transcript if m.receiver in range(1, n_parties + 1)]
    first = next(i for i, stage in enumerate(opened) if stage == "computation/opening 0")
    for proof in ("computation/bits 0 0 bounds/proof opened", "computation/proof opened"):
        before = [i for i, stage in enumerate(opened) if stage == proof and i < first]
        assert len(before) == n_parties * (n_parties - 1), "bits and the products of bits are proven before they mask"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "right"),
    [
        (lambda c, x, y: c.equal(x, y), X == Y),
        (lambda c, x, y: c.minimum(x, y), np.minimum(X, Y)),
        (lambda c, x, y: c.floor_shift(x, 2), X >> 2),
        (lambda c, x, y: c.low_bits(x, 3), X % 8),
        (lambda c, x, y: c.bits(x, 5), X >> np.arange(5)[:, None] & 1),
        (lambda c, x, y: c.sort(x), np.sort(X)),
        (lambda c, x, y: c.one_hot(x, 5), np.arange(5)[:, None] == X % 8),
    ],
    ids=["equal", "minimum", "floor_shift", "low_bits", "bits", "sort", "one_hot"],
)
def test_what_is_made_of_bits_gives_the_same_where_they_are_proven(program, right):
    ends, _ = run(program)
    assert answers_of(ends).tolist() == right.astype(int).tolist()


def test_a_fraction_is_cut_off_with_its_error():
    async def program(c, x, y):
        return await c.multiply_fixed(x, y, 2)

    ends, _ = run(program)
    assert np.abs(answers_of(ends) - X * Y / 4).max() < 1.5


ROWS_OF_X, ROWS_OF_Y = X.reshape(2, 3), Y.reshape(3, 2)
OF_MANY = {
    "matrix": (lambda c, x, y: c.matmul_fixed(x.reshape(2, 3), y.reshape(3, 2), 2), ROWS_OF_X @ ROWS_OF_Y / 4),
    "vectors": (lambda c, x, y: c.matmul_fixed(x, y, 2), X @ Y / 4),
    "matrix and vector": (lambda c, x, y: c.matmul_fixed(x.reshape(2, 3), y[:3], 1), ROWS_OF_X @ Y[:3] / 2),
    "mean": (lambda c, x, y: c.mean(x.reshape(3, 2)), X.reshape(3, 2).mean(axis=0)),
    "variance": (lambda c, x, y: c.variance(x.reshape(3, 2), 1), X.reshape(3, 2).var(axis=0) / 2),
    "variance of one column": (lambda c, x, y: c.variance(y, 0), Y.var()),
}


@pytest.mark.parametrize("name", OF_MANY)
def test_sums_of_products_are_cut_off_once_with_the_error_that_is_stated(name):
    program, right = OF_MANY[name]
    ends, network = run(program)
    answers = answers_of(ends)
    assert answers.shape == np.shape(right)
    assert np.abs(answers - right).max() < (1.5 if name.startswith(("matrix", "vectors")) else 2)
    stages = [m.stage for m in network.transcript]
    proofs = {stage for stage in stages if stage == "computation/proof opened"}
    assert bool(proofs) == (name != "mean"), "a mean multiplies nothing"
    if proofs:
        assert stages.index("computation/proof opened") < stages.index("computation/opening 0")


@pytest.mark.parametrize("name", ["matrix", "variance"])
def test_a_wrong_product_among_those_that_are_cut_off_ends_the_job_and_names_its_dealer(name):
    errors = iter([{1: 1}])
    with wrong_products(3, lambda segment: next(errors, {})):
        ends, network = run(OF_MANY[name][0])
    assert not list(errors)
    assert all(ends[party].member == 3 for party in (1, 2, 3))
    assert not [m for m in network.transcript if "/opening" in m.stage]


def test_factors_of_a_matrix_product_that_are_products_are_refused():
    ends, _ = run(lambda c, x, y: c.matmul_fixed((x * y)[None], y[:, None], 2))
    assert all(isinstance(end, LocalFaultError) and "reduce them first" in str(end) for end in ends.values())


@contextmanager
def lying(liar, place, value):
    """Let a party deal another number than a sign, and prove as if it were one; yields who lied."""
    draw, lied = proven_bits.drawn_signs, []

    def drawing(session, n_signs):
        signs = draw(session, n_signs)
        if session.me == liar:
            lied.append(session.me)
            signs = signs.astype(object)
            signs[place] = value(proven_bits.field_of_signs())
        return signs

    with (
        mock.patch.object(proven_bits, "drawn_signs", drawing),
        mock.patch.object(Computation, "_checked_input", lambda self, shape, values, bound: np.asarray(values)),
    ):
        yield lied


LIES = {
    "1 modulo one prime, -1 modulo the others": (3, lambda f: joined([1] + [p - 1 for p in f.primes[1:]], f)),
    "0": (3, lambda f: 0),
    "3": (3, lambda f: 3),
    "a high bit of 2^40": (40, lambda f: 1 << 40),
    "an idempotent of the field": (5, lambda f: joined([1] + [0] * (len(f.primes) - 1), f)),
}
QUICK = "1 modulo one prime, -1 modulo the others"


@pytest.mark.parametrize("liar", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lie", [pytest.param(lie, marks=() if lie == QUICK else pytest.mark.slow) for lie in LIES])
def test_a_dealer_of_what_is_no_bit_ends_the_job_before_anything_is_opened_and_is_named(lie, liar):
    with lying(liar, *LIES[lie]) as lied:
        ends, network = run(less)
    assert lied == [liar]
    assert {ends[party].member for party in (1, 2, 3) if isinstance(ends[party], PeerViolationError)} == {liar}
    assert isinstance(ends[COORDINATOR], PeerError)
    assert not [m for m in network.transcript if "/opening" in m.stage]


@pytest.mark.slow
def test_a_number_whose_square_is_1_modulo_each_prime_passes_where_it_is_not_projected(monkeypatch):
    """Then a comparison is a fraction, so that without projections the sum of its answers is beyond every bound."""
    monkeypatch.setattr(SignBound, "largest_projection", 1 << 200)
    with lying(1, *LIES[QUICK]):
        ends, _ = run(less)
    assert set(answers_of(ends).tolist()) - {0, 1}


@pytest.mark.parametrize("kind", [Computation, ProvenComputation])
def test_a_wrong_share_at_a_masked_opening_ends_the_job(kind):
    lied = []

    def fault(message):
        if (message.stage, message.sender) != ("computation/opening 0", 2):
            return (message,)
        lied.append(message.receiver)
        return (message.altered(with_another_residue(message.array)),)

    ends, network = run(less, kind=kind, fault=fault)
    assert sorted(lied) == [1, 3]
    assert all(isinstance(ends[party], InconsistentSharesError) for party in (1, 3))
    assert isinstance(ends[COORDINATOR], PeerError)
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


@pytest.mark.slow
@pytest.mark.parametrize("reduction", range(4))
def test_a_wrong_product_anywhere_in_a_comparison_ends_the_job_before_what_follows_is_opened(reduction):
    """The first one makes the bits of the mask, the others take the answer from what is opened."""
    errors = iter([{2: 1} if number == reduction else {} for number in range(4)])
    with wrong_products(2, lambda segment: next(errors, {})):
        ends, network = run(less)
    assert not reduction or not list(errors), "all reductions of a comparison are tried"
    assert all(ends[party].member == 2 for party in (1, 2, 3))
    masked = [m for m in network.transcript if m.stage == "computation/opening 0"]
    assert bool(masked) == (reduction > 0)
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


def test_a_dealer_of_what_is_no_bit_makes_an_answer_wrong_where_parties_are_trusted():
    drawn_parts = Computation._drawn_parts

    def lying(self, n_bits, n_values, sizes):
        words = drawn_parts(self, n_bits, n_values, sizes)
        if self.me == 1:
            words[:, :30] = self.field.scale(words[:, :30], 3)
        return words

    with mock.patch.object(Computation, "_drawn_parts", lying):
        ends, _ = run(less, kind=Computation)
    assert set(answers_of(ends).tolist()) - {0, 1}


def test_what_would_not_be_proven_is_refused():
    async def shuffled(c, x, y):
        return await c.shuffle(x)

    async def unreduced(c, x, y):
        return x * y

    async def masked(c, x, y):
        return await c.truncate(x * y, 2)

    for program, why in ((shuffled, "not proven"), (unreduced, "by `multiply`"), (masked, "by `multiply`")):
        ends, network = run(program)
        assert all(isinstance(end, LocalFaultError) and why in str(end) for end in ends.values())
        assert not [m for m in network.transcript if "opening" in m.stage]


def test_signs_within_three_times_the_bound_have_their_own_square_and_tell_nothing():
    bound, field = SignBound.of_rows(MOST_ROWS), field_of_signs()
    assert 9 * bound.largest_projection**2 <= bound.order_needed < field.order
    assert field.primes[:3] == FIELD.primes
    signs = 2 * math.ceil(math.log2(field.order))  # of one masked value, each of which moves by 2
    assert 2 * N_PROJECTIONS * signs / (2 << LOG2_MASK) < DISTANCE
    assert rows_of(1) == [1]
    assert rows_of(WIDTH * MOST_ROWS + 1) == [MOST_ROWS, 1]


def test_a_field_of_other_primes_is_refused_before_any_bit_is_dealt():
    ends, network = run(less, field=ResidueField.over((2097047, 2097041, 2097031, 2097023)))
    for party in (1, 2, 3):
        assert isinstance(ends[party], LocalFaultError)
        assert "fields of the first primes alone" in str(ends[party])
    assert not any("bits" in message.stage for message in network.transcript)
