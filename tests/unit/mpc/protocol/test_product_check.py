import numpy as np
import pytest
from sharings import corrupt, random_words, share
from virtual_time import run_in_virtual_time

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.product_check import ProductCheck

FIELD = ResidueField(4)
SIZE = 300


def verify(n_parties, damage=lambda products: products, segments=1):
    """Every party deals its point of products of degree 2; what each check says after `damage` to the points."""
    network = LocalNetwork(local_names(n_parties), deadline_s=5)
    products = damage(share(ShamirScheme(FIELD, n_parties, 2), random_words(FIELD, SIZE, "secret"), "products"))
    dealt = {d: share(ShamirScheme(FIELD, n_parties, 1), products[d], f"dealt {d}", dealer=d) for d in products}

    async def member(session):
        exchange = ShareExchange(session, FIELD, n_parties, 1, {})
        check = ProductCheck(exchange, DealerAgreement(exchange, "test"))
        for block in range(segments):
            check.collect("test/products", block, 2, {d: dealt[d][session.me] for d in sorted(dealt)})
        await check.verify("test")

    return network, run_in_virtual_time(network.run(dict.fromkeys(range(1, n_parties + 1), member)))


def damage_of(dealer, prime_index=0, entry=7):
    return lambda products: products | {dealer: corrupt(products[dealer], prime_index, entry, FIELD)}


@pytest.mark.parametrize("n_parties", [4, 5, 6])
@pytest.mark.parametrize("segments", [1, 3])
def test_right_products_pass(n_parties, segments):
    network, results = verify(n_parties, segments=segments)
    assert set(results.values()) == {None}
    opened = [m.array for m in network.transcript if m.stage == "test/check 0"]
    assert {array.shape[1] for array in opened} == {2 * (n_parties - 3) * segments}


@pytest.mark.parametrize("dealer", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("prime_index", [0, 3])
def test_one_wrong_residue_of_one_dealer_among_five_is_found_and_the_dealer_named(dealer, prime_index):
    _, results = verify(5, damage_of(dealer, prime_index))
    assert all(isinstance(error, PeerViolationError) and error.member == dealer for error in results.values())
    assert f"party-{dealer} multiplied corrupted shares" in str(results[1])


@pytest.mark.parametrize("dealer", [1, 4])
def test_among_four_it_is_found_without_a_name(dealer):
    _, results = verify(4, damage_of(dealer))
    assert all(isinstance(error, InconsistentSharesError) for error in results.values())


def test_without_surplus_dealers_there_is_nothing_to_check():
    network, results = verify(3, damage_of(2))
    assert set(results.values()) == {None}
    assert network.transcript == []


def test_the_opened_polynomials_are_not_the_products():
    """All that is opened is zero; the shares of it are uniform."""
    network, _ = verify(5)
    words = np.concatenate(
        [m.array.reshape(-1) for m in network.transcript if m.stage == "test/check 0" and m.receiver == 1]
    )
    assert len(set(words.tolist())) == words.size
