"""Arithmetic modulo primes against `galois`: inverses, matrices, polynomials, and what is told on the way."""

import re
from pathlib import Path

import galois
import numpy as np
import pytest
from programs import ROSTERS, opened, run_shared
from virtual_time import run_in_virtual_time

from mpc.arithmetic.elimination import inverse_and_determinant
from mpc.arithmetic.field import ResidueField
from mpc.errors import FieldMismatchError, LocalFaultError, ShapeError, TooFewPartiesError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.protocol.operations import modular as module
from mpc.protocol.session import COORDINATOR

REPOSITORY = Path(__file__).parents[5]
P = 101
GF = galois.GF(P, compile="python-calculate")
FIELD = ResidueField.of(GF)
RNG = np.random.default_rng(3)
MATRIX = GF([[1, 2, 3], [4, 5, 6], [7, 8, 10]])


def modulo(body, *values, n_parties=3, t=1, field=FIELD):
    """Return what the coordinator opens, as elements of GF(101)."""
    found = opened(body, *values, bound=None, n_parties=n_parties, t=t, field=field)
    return GF(np.asarray(found % P, dtype=np.int64))


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_inverses_are_those_of_galois(n_parties, t):
    x = GF(np.arange(1, P))

    async def body(c, shared):
        return await c.inverse(shared)

    assert (modulo(body, x, n_parties=n_parties, t=t) == x**-1).all()


def test_zeros_are_found_and_can_be_left_as_they_are():
    x = GF([0, 1, 2, 0, 100])

    async def body(c, shared):
        zero = await c.is_zero(shared)
        return np.stack([zero, await c.inverse(shared + zero) - zero, await c.equal(shared, 2)])

    inverses = [0, 1, 51, 0, 100]
    np.testing.assert_array_equal(modulo(body, x), [[1, 0, 0, 1, 0], inverses, [0, 0, 1, 0, 0]])

    async def blind(c, shared):
        return await c.inverse(shared)

    with pytest.raises(LocalFaultError, match="no inverse modulo 101"):
        modulo(blind, x)


@pytest.mark.parametrize(("n_parties", "t"), ROSTERS)
def test_matrices_are_inverted_solved_and_have_determinants(n_parties, t):
    side = GF([[1, 0], [0, 1], [5, 5]])

    async def body(c, matrix, right):
        inverse, solution = await c.inv(matrix), await c.solve(matrix, right)
        determinant = await c.det(matrix)
        return np.concatenate([inverse.reshape(-1), solution.reshape(-1), determinant.reshape(1)])

    got = modulo(body, MATRIX, side, n_parties=n_parties, t=t)
    assert (got[:9].reshape(3, 3) == np.linalg.inv(MATRIX)).all()
    assert (got[9:15].reshape(3, 2) == np.linalg.solve(MATRIX, side)).all()
    assert got[15] == np.linalg.det(MATRIX)


def test_a_singular_matrix_has_determinant_zero_and_no_inverse():
    singular = GF([[1, 2, 3], [2, 4, 6], [0, 0, 1]])

    async def determinant(c, matrix):
        return await c.det(matrix)

    async def inverse(c, matrix):
        return await c.inv(matrix)

    assert modulo(determinant, singular) == 0
    with pytest.raises(LocalFaultError, match="singular modulo 101"):
        modulo(inverse, singular)
    with pytest.raises(ShapeError, match="a square matrix"):
        modulo(inverse, singular[:2])


def test_products_of_primes_have_inverses_too():
    field = ResidueField(4)
    x = [2, -3, 10**15, field.order - 1]

    async def body(c, shared):
        return await c.inverse(shared)

    got = opened(body, x, bound=None, field=field)
    assert [int(a) * b % field.order for a, b in zip(got, x, strict=True)] == [1] * 4


def test_a_polynomial_of_galois_is_evaluated_on_shares():
    polynomial = galois.Poly([3, 0, 1, 0, 0, 7], field=GF)

    async def body(c, shared):
        return await c.polynomial(shared, polynomial)

    x = GF(np.arange(P))
    assert (modulo(body, x) == polynomial(x)).all()


def test_what_is_opened_comes_back_as_an_array_of_galois():
    async def program(c, mine):
        x = await c.input(1, (3,), GF([1, 100, 50]) if c.me == 1 else None, bound=None)
        found = await c.open(x * 2, c.members)
        with pytest.raises(FieldMismatchError, match=r"GF\(7\) are none of a field of \(101,\)"):
            found.to(galois.GF(7, compile="python-calculate"))
        return found.to(GF)

    network = LocalNetwork(local_names(3))
    results = run_in_virtual_time(run_program(network, program, {}, field=FIELD, n_parties=3, t=1))
    for result in results.values():
        assert isinstance(result, GF)
        np.testing.assert_array_equal(result, [2, 99, 100])


def test_what_is_no_field_of_different_primes_is_refused():
    with pytest.raises(LocalFaultError, match="only prime fields"):
        ResidueField.of(
            galois.GF(
                2**2, irreducible_poly="x^2 + x + 1", primitive_element="x", verify=False, compile="python-calculate"
            )
        )
    with pytest.raises(LocalFaultError, match="distinct"):
        ResidueField.of(GF, GF)


def test_a_prime_has_room_for_the_numbers_of_all_parties():
    async def body(c, shared):
        return shared

    with pytest.raises(TooFewPartiesError, match="distinct abscissas"):
        modulo(body, [1], n_parties=5, field=ResidueField.over([5]))


@pytest.mark.parametrize(
    ("values", "error", "why"),
    [
        (galois.GF(7, compile="python-calculate")([1]), FieldMismatchError, r"elements of GF\(7\) are none"),
        ([1.5], LocalFaultError, "only integers"),
    ],
)
def test_what_is_no_element_of_the_field_is_refused_at_its_dealer(values, error, why):
    async def program(c, mine):
        await c.input(1, (1,), values if c.me == 1 else None, bound=None)

    network = LocalNetwork(local_names(3))
    results = run_in_virtual_time(run_program(network, program, {}, field=FIELD, n_parties=3, t=1))
    with pytest.raises(error, match=why):
        raise results[1]


def test_integers_without_a_bound_are_taken_modulo_the_field():
    async def body(c, shared):
        return shared * 1

    values = np.array([10**30, -1, 2**64 + 3], dtype=object)
    np.testing.assert_array_equal(modulo(body, values), values % P)


def test_order_is_refused_where_there_is_none():
    async def body(c, shared):
        return await c.less(shared, 3)

    with pytest.raises(LocalFaultError, match="no size"):
        modulo(body, [1])


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_elimination_agrees_with_galois(n):
    for _ in range(20):
        matrix = GF(RNG.integers(0, P, (n, n)) * (RNG.random((n, n)) < 0.6))
        inverse, determinant = inverse_and_determinant(np.asarray(matrix), P)
        assert determinant % P == np.linalg.det(matrix)
        if determinant:
            assert (GF(inverse) == np.linalg.inv(matrix)).all()


def test_whatever_a_coalition_has_dealt_what_is_opened_is_uniform(monkeypatch):
    """All choices of the honest dealer, for each value: each nonzero element is opened once, so it tells nothing."""
    field = ResidueField.over([7])
    values, masks = (grid.reshape(-1) for grid in np.meshgrid(np.arange(1, 7), np.arange(1, 7)))
    drawn = iter([np.full(36, 3), masks])
    monkeypatch.setattr(module, "_invertible", lambda field, stream, shape: [next(drawn)])
    seen = {}
    original = module.Modular._opened_residues

    async def keep(self, x):
        seen[self.me] = await original(self, x)
        return seen[self.me]

    monkeypatch.setattr(module.Modular, "_opened_residues", keep)

    async def body(c, shared):
        return await c.inverse(shared)

    opened(body, values, bound=None, field=field)
    for value in range(1, 7):
        np.testing.assert_array_equal(np.sort(seen[1][0][values == value]), np.arange(1, 7))


def test_masks_are_uniform_among_what_has_an_inverse():
    """Without zeros and singular matrices, and each as often as the others."""
    field = ResidueField.over([5])
    network_field_stream = module.KeyStream(bytes(32))
    (drawn,) = module._invertible(field, network_field_stream, (8000,))
    counts = np.bincount(drawn, minlength=5)
    assert counts[0] == 0
    assert abs(counts[1:] - 2000).max() < 5 * 2000**0.5
    small = ResidueField.over([3])
    found = [module._invertible_matrix(small, network_field_stream, 2, 0)[0] for _ in range(2400)]
    kinds = np.unique(np.array(found).reshape(-1, 4), axis=0, return_counts=True)[1]
    assert len(kinds) == 48  # all of GL(2, 3)
    assert abs(kinds - 50).max() < 5 * 50**0.5


def test_no_room_imports_galois():
    """It takes a second and 100 MB: arrays come from programs that have imported it, and a service at rest has not."""
    importing = re.compile(r"^\s*(?:import|from) galois\b", re.MULTILINE)
    assert importing.search(Path(__file__).read_text(encoding="utf-8"))
    rooms = {path.parent for path in REPOSITORY.glob("*/__init__.py")} - {REPOSITORY / "bench"}
    assert REPOSITORY / "mpc" in rooms
    found = [p for room in rooms for p in room.rglob("*.py") if importing.search(p.read_text(encoding="utf-8"))]
    assert found == []


def test_members_without_shares_learn_of_a_missing_inverse_too():
    async def body(c, shared):
        return await c.inverse(shared)

    with pytest.raises(LocalFaultError, match="no inverse"):
        run_shared(body, [0], bound=None, field=FIELD)
    _, results = run_shared(body, [5], bound=None, field=FIELD)
    assert results[COORDINATOR] * 5 % P == 1
