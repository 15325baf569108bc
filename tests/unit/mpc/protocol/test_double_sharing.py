import itertools

import galois
import numpy as np
import pytest
from sharings import random_words, share
from virtual_time import run_in_virtual_time

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import InconsistentSharesError, PeerError, PeerLostError, PeerViolationError, TooFewPartiesError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.double_sharing import (
    double_sharings_win,
    extraction_weights,
    reduce_with_double_sharings,
)
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.reduction import SEGMENT
from mpc.protocol.session import Session

FIELD = ResidueField(4)


class Batch:
    """Random products, shared with degree 2t, and how their degree is reduced."""

    def __init__(self, n_parties, t, size, field=FIELD):
        self.n_parties, self.t, self.field, self.size = n_parties, t, field, size
        self.values = random_words(field, size, "products")
        self.shares = share(ShamirScheme(field, n_parties, 2 * t), self.values, "shares")
        self.network = LocalNetwork(local_names(n_parties), deadline_s=2)

    def run(self, damage=lambda party, words: words):
        """Return each party's result; `damage` changes what it holds of x * y - r and of nothing else."""
        everybody = range(1, self.n_parties + 1)

        async def member(session: Session):
            secrets = await agree_pairwise_secrets(session, everybody, self.n_parties)
            exchange = ShareExchange(session, self.field, self.n_parties, self.t, secrets)
            mine = damage(session.me, self.shares[session.me])
            return await reduce_with_double_sharings(exchange, "test", 0, lambda where: mine[:, where], self.size)

        return run_in_virtual_time(self.network.run(dict.fromkeys(everybody, member)))

    def messages(self, stage):
        return [m for m in self.network.transcript if m.stage == f"test/{stage}"]


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2), (7, 3), (9, 4)])
@pytest.mark.parametrize("size", [1, 2, 10, 1000])
def test_the_values_are_those_of_the_product_and_the_degree_is_t(n_parties, t, size):
    batch = Batch(n_parties, t, size)
    opening = open_shares(batch.run(), t, FIELD)  # checks that all shares lie on polynomials of degree t
    np.testing.assert_array_equal(opening.words, batch.values)
    assert opening.wrong == ()


def test_the_degree_is_not_below_t():
    batch = Batch(7, 3, 100)
    with pytest.raises(InconsistentSharesError):
        open_shares(batch.run(), 2, FIELD)


def test_batches_of_several_segments():
    batch = Batch(3, 1, 2 * SEGMENT + 5, ResidueField(1))
    np.testing.assert_array_equal(open_shares(batch.run(), 1, batch.field).words, batch.values)


def test_an_empty_batch():
    batch = Batch(3, 1, 0)
    assert {words.shape for words in batch.run().values()} == {(2, 0)}


@pytest.mark.parametrize(("n_parties", "t"), [(7, 3), (9, 4)])
def test_as_much_is_sent_as_the_docstring_says(n_parties, t):
    size = n_parties * (t + 1) * 50
    batch = Batch(n_parties, t, size, ResidueField(3))
    batch.run()
    for stage, words in {
        "masks": t / (t + 1),
        "masks of products": 0,
        "masked products": 2 * t / n_parties,
        "opened masked products": t / n_parties,
    }.items():
        sent = [sum(m.array.size for m in batch.messages(stage) if m.sender == p) for p in range(1, n_parties + 1)]
        assert sent == [pytest.approx(words * size)] * n_parties, stage


def test_what_is_opened_is_uniform():
    """Products that are all zero: the values that kings open are r, spread evenly over the field."""
    batch = Batch(3, 1, 30_000, ResidueField.over([7]))
    batch.run(lambda party, words: np.zeros_like(words))
    opened = np.concatenate([m.array[0] for m in batch.messages("opened masked products")])
    counts = np.bincount(opened.astype(np.int64), minlength=7)
    expected = opened.size / 7
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-squared, 6 degrees of freedom: 1e-4


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2), (7, 3)])
def test_any_n_minus_t_dealers_determine_all_masks_one_to_one(n_parties, t):
    field = ResidueField.over([11])
    gf = galois.GF(11, compile="python-calculate")
    rows = extraction_weights(field, n_parties, t)
    matrix = gf([[row.get(dealer, (0,))[0] for dealer in range(1, n_parties + 1)] for row in rows])
    for honest in itertools.combinations(range(n_parties), n_parties - t):
        assert np.linalg.matrix_rank(matrix[:, honest]) == n_parties - t


@pytest.mark.parametrize("party", [1, 2, 5])
@pytest.mark.parametrize("entry", [0, 7, 99])
def test_one_wrong_share_of_a_masked_product_is_noticed_by_all(party, entry):
    """Its holder sends a wrong share to the king and the right one afterwards: as on a bad line."""
    batch = Batch(5, 2, 100)

    def fault(message):
        part = batch.size // 5
        if (message.stage, message.sender) == ("test/masked products", party) and message.receiver == entry // part + 1:
            wrong = message.array.copy()
            wrong[:, entry % part] ^= 1
            return (message.altered(wrong),)
        return (message,)

    batch.network.fault = fault
    results = batch.run()
    king = entry // 20 + 1
    if king == party:
        np.testing.assert_array_equal(open_shares(results, 2, FIELD).words, batch.values)  # nothing was sent
    else:
        assert {type(error) for error in results.values()} == {InconsistentSharesError}


@pytest.mark.parametrize("to_all", [True, False])
def test_a_king_that_tells_a_wrong_value_is_noticed_by_all(to_all):
    batch = Batch(5, 2, 100)

    def fault(message):
        if (message.stage, message.sender) == ("test/opened masked products", 2) and (to_all or message.receiver == 1):
            wrong = message.array.copy()
            wrong[:, 3] ^= 1
            return (message.altered(wrong),)
        return (message,)

    batch.network.fault = fault
    assert {type(error) for error in batch.run().values()} == {InconsistentSharesError}


def test_a_value_outside_the_field_names_the_king():
    batch = Batch(3, 1, 100)
    batch.network.fault = lambda message: (
        (message.altered(np.full_like(message.array, 2**64 - 1)),)
        if (message.stage, message.sender) == ("test/opened masked products", 2)
        else (message,)
    )
    error = next(e for e in batch.run().values() if isinstance(e, PeerViolationError))
    assert error.member == 2
    assert "party-2" in str(error)


@pytest.mark.parametrize("stage", ["masks", "masked products", "opened masked products"])
def test_a_lost_king_ends_the_job_of_all_and_is_named_by_who_waits_for_it(stage):
    batch = Batch(5, 2, 100)

    def fault(message):
        if (message.stage, message.sender) == (f"test/{stage}", 3):
            batch.network.kill(3)
        return () if 3 in batch.network.lost else (message,)

    batch.network.fault = fault
    results = batch.run()
    del results[3]
    assert all(isinstance(error, PeerError) for error in results.values()), results
    assert sum(isinstance(error, PeerLostError) and error.member == 3 for error in results.values()) >= 3, results


def test_more_parties_than_2t_plus_1_are_refused():
    exchange = ShareExchange(LocalNetwork(local_names(7)).session(1), FIELD, 7, 2, {})
    with pytest.raises(TooFewPartiesError, match="2t \\+ 1"):
        run_in_virtual_time(reduce_with_double_sharings(exchange, "test", 0, lambda where: FIELD.zeros((1,)), 1))


# -- the rule ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_parties", [3, 5])
def test_small_rosters_never_use_double_sharings(n_parties):
    assert not double_sharings_win(n_parties, n_parties // 2, 10**9, 2)


@pytest.mark.parametrize("n_parties", [7, 9, 11, 15])
def test_from_seven_parties_large_batches_do_and_small_ones_do_not(n_parties):
    t = n_parties // 2
    assert double_sharings_win(n_parties, t, 1_000_000, 1)
    assert not double_sharings_win(n_parties, t, 10_000, 1)


def test_the_more_parties_and_words_the_smaller_the_batch_that_pays():
    def smallest(n_parties, n_words):
        sizes = range(0, 2_000_000, 1000)
        return next(size for size in sizes if double_sharings_win(n_parties, n_parties // 2, size, n_words))

    for n_words in (1, 2):
        batches = [smallest(n_parties, n_words) for n_parties in (7, 9, 11, 15)]
        assert batches == sorted(batches, reverse=True)
        assert len(set(batches)) == 4
    assert smallest(9, 2) < smallest(9, 1)


@pytest.mark.parametrize(("n_parties", "t"), [(7, 2), (9, 3), (11, 4)])
def test_where_a_party_may_drop_out_products_are_reshared(n_parties, t):
    assert not double_sharings_win(n_parties, t, 10**9, 2)
