"""Errors that a party chooses so that a check of products would not see them. With N >= 3t + 1 it sees each of them."""

import hashlib

import numpy as np
import pytest
from deviations import wrong_products
from virtual_time import run_in_virtual_time

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.errors import InconsistentSharesError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.protocol.product_check import N_COMBINATIONS
from mpc.protocol.session import COORDINATOR

FIELD = ResidueField(1)
(P,) = FIELD.primes
X = np.arange(1, 21)


async def cubes(c, mine):
    """x^3 of a party's values, opened to the coordinator; the first product is the one that is made wrong."""
    x = await c.input(2, X.shape, mine, bound=20)
    return await c.open((await c.multiply(await c.multiply(x, x), x)).sum())


def results_of(errors, attacker=1, n_parties=4, t=1):
    """Run the circuit with errors in its first reduction: element to what is added."""
    network = LocalNetwork(
        local_names(n_parties), deadline_s=10, entropy_of=lambda m: InsecureTestEntropy(f"member {m}")
    )
    first = iter([errors])
    with wrong_products(attacker, lambda segment: next(first, {})):
        return run_in_virtual_time(run_program(network, cubes, {2: X}, field=FIELD, n_parties=n_parties, t=t))


def assert_found(results):
    assert {type(results[party]) for party in (1, 2, 3, 4)} <= {PeerViolationError, InconsistentSharesError}
    assert isinstance(results[COORDINATOR], Exception)


def errors_that_cancel(coefficients):
    """Return errors of three elements of which both combinations are 0: two equations, three unknowns."""
    (a, b, c), (d, e, f) = coefficients[:, :3].tolist()
    errors = [(b * f - c * e) % P, (c * d - a * f) % P, (a * e - b * d) % P]
    assert all(sum(k * error for k, error in zip(row, errors, strict=True)) % P == 0 for row in ((a, b, c), (d, e, f)))
    assert all(errors)
    return dict(enumerate(errors))


def public_guesses():
    """Seeds that are known when products are dealt: from job, stage and block, or of a coin that is 0."""
    stage = "local\0computation/products\0"
    for block in (0, 1):
        yield hashlib.sha256(f"{stage}{block}".encode()).digest()
    yield hashlib.sha256(b"moiety check of products" + FIELD.zeros((8,)).tobytes()).digest()


@pytest.mark.parametrize("seed", tuple(public_guesses()), ids=["block 0", "block 1", "a fixed coin"])
def test_errors_that_cancel_with_public_coefficients_are_found(seed):
    """They were not as long as the coefficients followed from job, stage and block."""
    coefficients = FIELD.residues(FIELD.random(KeyStream(seed), (N_COMBINATIONS, X.size)))[0]
    assert_found(results_of(errors_that_cancel(np.asarray(coefficients))))


@pytest.mark.parametrize("attacker", [1, 2, 3])
@pytest.mark.parametrize("errors", [{0: 1}, {19: P - 1}, {0: 5, 1: P - 5}, dict.fromkeys(range(20), 7)], ids=len)
def test_whoever_makes_them_wrong_and_wherever(attacker, errors):
    assert_found(results_of(errors, attacker))


def test_without_errors_the_answer_opens():
    results = results_of({})
    assert int(results[COORDINATOR].values) == int((X**3).sum())


def test_the_coin_is_another_one_in_each_run_and_is_opened_after_all_products_are_dealt():
    """Whoever waits for others' shares of it before it deals to all is waited for: nothing of it is sent until then."""
    coins = set()
    for seed in range(3):
        network = LocalNetwork(
            local_names(4), deadline_s=10, entropy_of=lambda m, seed=seed: InsecureTestEntropy(f"{seed} {m}")
        )
        run_in_virtual_time(run_program(network, cubes, {2: X}, field=FIELD, n_parties=4, t=1))
        stages = [(m.stage.split("@")[0], m.sender) for m in network.transcript]
        of_coin = [i for i, (stage, _) in enumerate(stages) if stage == "computation/coin 0"]
        told = [i for i, (stage, _) in enumerate(stages) if stage == "computation/dealers"]
        dealt = {stages[i][1] for i in told if i < of_coin[0]}
        assert dealt == {1, 2, 3, 4}  # all have said from whom they have everything, before the first share of the coin
        coins.add(network.transcript[of_coin[0]].array.tobytes())
    assert len(coins) == 3
