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
from mpc.protocol.product_check import N_COINS, ProductCheck

FIELD = ResidueField(4)
SIZE = 300


def verify(n_parties, damage=lambda products: products, reductions=(1,), t=1):
    """Every party deals its point of products of degree 2t; what each check says after `damage` to the points.

    Args:
        n_parties: N.
        damage: of the points by dealer.
        reductions: the segments of each.
        t: degree of what is dealt.
    """
    network = LocalNetwork(local_names(n_parties), deadline_s=5)
    products = damage(share(ShamirScheme(FIELD, n_parties, 2 * t), random_words(FIELD, SIZE, "secret"), "products"))
    scheme = ShamirScheme(FIELD, n_parties, t)
    dealt = {d: share(scheme, products[d], f"dealt {d}", dealer=d) for d in products}
    coins = [share(scheme, random_words(FIELD, N_COINS, f"coin {i}"), f"coin {i}") for i in range(len(reductions))]

    async def member(session):
        exchange = ShareExchange(session, FIELD, n_parties, t, {})
        check = ProductCheck(exchange, DealerAgreement(exchange, "test"))
        for segments, coin in zip(reductions, coins, strict=True):
            await check.reveal()
            for _ in range(segments):
                check.collect(2 * t, {d: dealt[d][session.me] for d in sorted(dealt)})
            check.keep_coin(coin[session.me])
        return await check.verify("test")

    return network, run_in_virtual_time(network.run(dict.fromkeys(range(1, n_parties + 1), member)))


def damage_of(dealer, prime_index=0, entry=7):
    return lambda products: products | {dealer: corrupt(products[dealer], prime_index, entry, FIELD)}


@pytest.mark.parametrize("n_parties", [4, 5, 6])
@pytest.mark.parametrize("reductions", [(1,), (3,), (2, 1, 1)])
def test_right_products_pass_and_the_check_opens_as_much_whatever_they_are(n_parties, reductions):
    network, results = verify(n_parties, reductions=reductions)
    assert set(results.values()) == {()}
    opened = [m.array for m in network.transcript if m.stage == "test/check 0"]
    assert {array.shape[1] for array in opened} == {2 * (n_parties - 3)}
    coins = [m for m in network.transcript if m.stage.startswith("test/coin")]
    assert len(coins) == len(reductions) * n_parties * (n_parties - 1)


@pytest.mark.parametrize("dealer", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("prime_index", [0, 3])
def test_one_wrong_residue_of_one_dealer_among_five_is_found_and_the_dealer_named(dealer, prime_index):
    _, results = verify(5, damage_of(dealer, prime_index))
    assert all(isinstance(error, PeerViolationError) and error.member == dealer for error in results.values())
    assert f"party-{dealer} multiplied corrupted shares" in str(results[1])


@pytest.mark.parametrize("dealer", [1, 4])
@pytest.mark.parametrize("reductions", [(1,), (1, 1)])
def test_among_four_it_is_found_without_a_name(dealer, reductions):
    _, results = verify(4, damage_of(dealer), reductions)
    assert all(isinstance(error, InconsistentSharesError) for error in results.values())


def test_with_3t_plus_1_parties_t_wrong_dealers_are_found():
    """Seven parties tolerate two: errors of both leave a syndrome whatever they are, as the code has distance 3."""
    _, results = verify(7, lambda products: damage_of(2)(damage_of(5, entry=9)(products)), t=2)
    assert all(isinstance(error, (PeerViolationError, InconsistentSharesError)) for error in results.values())


def test_without_surplus_dealers_there_is_nothing_to_check():
    network, results = verify(3, damage_of(2))
    assert set(results.values()) == {()}
    assert network.transcript == []


def test_the_opened_polynomials_are_not_the_products():
    """All that is opened is zero; the shares of it are uniform."""
    network, _ = verify(5)
    words = np.concatenate(
        [m.array.reshape(-1) for m in network.transcript if m.stage == "test/check 0" and m.receiver == 1]
    )
    assert len(set(words.tolist())) == words.size
