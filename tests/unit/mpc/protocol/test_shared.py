import operator

import numpy as np
import pytest
from sharings import random_words

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import FieldMismatchError, FieldTooSmallError, LocalFaultError, ShapeError
from mpc.protocol.shared import SharedArray, concatenate, public_array, stack

N_PARTIES = 5
FIELDS = [ResidueField(3), ResidueField(5)]
X = np.arange(-6, 6).reshape(3, 4)
Y = np.array([[5, -1, 0, 7], [2, 2, -9, 4], [1, 3, -3, 8]])


@pytest.fixture(params=FIELDS, ids=lambda field: f"{len(field.primes)} primes")
def field(request):
    return request.param


def deal(field, values, seed="x", degree=1, bound=10):
    """Every party's array, and last that of a member without shares."""
    scheme = ShamirScheme(field, N_PARTIES, degree)
    flat = field.encode(np.asarray(values).reshape(-1))
    derived = {r: random_words(field, flat.shape[1:], f"{seed} {r}") for r in scheme.derived_receivers(1)}
    shares = derived | scheme.deal(1, flat, derived)
    return [
        SharedArray(field, np.shape(values), degree, bound, shares[p].reshape(field.n_words, *np.shape(values)))
        for p in scheme.parties
    ] + [SharedArray(field, np.shape(values), degree, bound, None)]


def recombined(arrays):
    """The secrets from the first degree + 1 and from the last degree + 1 shares."""
    *holders, outsider = arrays
    first = holders[0]
    assert outsider.share is None
    assert (outsider.shape, outsider.degree, outsider.bound) == (first.shape, first.degree, first.bound)
    scheme = ShamirScheme(first.field, N_PARTIES, first.degree)
    flat = {p: a.share.reshape(first.field.n_words, -1) for p, a in zip(scheme.parties, holders, strict=True)}
    needed = first.degree + 1
    one = scheme.recombine({p: flat[p] for p in list(flat)[:needed]})
    np.testing.assert_array_equal(one, scheme.recombine({p: flat[p] for p in list(flat)[-needed:]}))
    return first.field.decode(one).reshape(first.shape).astype(object)


def check(arrays, expected, *, degree=1):
    np.testing.assert_array_equal(recombined(arrays), expected)
    assert arrays[0].degree == degree
    assert arrays[0].shape == np.shape(expected)
    assert np.abs(np.asarray(expected)).max(initial=0) <= arrays[0].bound


BINARY = [operator.add, operator.sub, operator.mul]


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("index", [np.s_[:], np.s_[0], np.s_[:, :1], np.s_[0, 0]], ids=str)
def test_operators_of_two_shared_arrays_broadcast_like_numpy(field, operation, index):
    x, y = deal(field, X), deal(field, Y, "y")
    degree = 2 if operation is operator.mul else 1
    check([operation(a, b[index]) for a, b in zip(x, y, strict=True)], operation(X, Y[index]), degree=degree)
    check([operation(b[index], a) for a, b in zip(x, y, strict=True)], operation(Y[index], X), degree=degree)


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("public", [7, -3, 0, Y, Y[0], np.int64(5)], ids=str)
def test_operators_with_public_integers_keep_the_degree_on_both_sides(field, operation, public):
    x = deal(field, X)
    check([operation(a, public) for a in x], operation(X, public))
    check([operation(public, a) for a in x], operation(public, X))


def test_arrays_without_axes(field):
    x, y = deal(field, np.int64(-6)), deal(field, np.int64(5), "y")
    check([a + b for a, b in zip(x, y, strict=True)], -1)
    check([a * b for a, b in zip(x, y, strict=True)], -30, degree=2)
    check([3 - a * 2 for a in x], 15)
    check([a.sum() for a in x], -6)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 8, 1001])
def test_sums_of_any_length(field, length):
    values = np.arange(length) % 19 - 9
    check([a.sum() for a in deal(field, values)], values.sum())


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3, None])
def test_sums_along_any_axis(field, axis):
    values = np.arange(-30, 30).reshape(3, 4, 5)
    check([a.sum(axis) for a in deal(field, values, bound=30)], values.sum(axis))


def test_negation_and_shapes(field):
    x = deal(field, X)
    check([-a for a in x], -X)
    check([a.T for a in x], X.T)
    check([a.reshape(2, -1) for a in x], X.reshape(2, 6))
    check([a[1:, ::2] for a in x], X[1:, ::2])
    check([a[..., -1] for a in x], X[..., -1])
    check([a[:, None, 2] for a in x], X[:, None, 2])
    check([(a.T * 2 + 1)[1] for a in x], (X.T * 2 + 1)[1])


def test_joining(field):
    x, y = deal(field, X), deal(field, Y, "y", degree=2, bound=20)
    pairs = list(zip(x, y, strict=True))
    for axis in (0, 1, -1):
        check([concatenate(pair, axis) for pair in pairs], np.concatenate([X, Y], axis), degree=2)
    check([stack(pair) for pair in pairs], np.stack([X, Y]), degree=2)


@pytest.mark.parametrize(
    ("left", "right"), [(X, Y.T), (X[0], Y[1]), (X, Y[0]), (X[:, 0], Y), (X[:0].T, Y[:0])], ids=lambda a: str(a.shape)
)
def test_matrix_products_of_matrices_and_vectors(field, left, right):
    x, y = deal(field, left), deal(field, right, "y")
    check([a @ b for a, b in zip(x, y, strict=True)], left @ right, degree=2)
    check([a @ right for a in x], left @ right)
    check([left @ b for b in y], left @ right)


def test_bounds_follow_the_arithmetic_and_are_lost_with_unbounded_operands(field):
    x = deal(field, X, bound=10)[0]
    assert (x + x).bound == (x - x).bound == 20
    assert (x * x).bound == 100
    assert (x * -3).bound == 30
    assert (x + np.array([1, -9, 3, 4])).bound == 19
    assert x.sum().bound == 120
    assert x.sum(1).bound == 40
    assert (x @ x.T).bound == 400
    unbounded = SharedArray(field, X.shape, 1, None, x.share)
    for result in (x + unbounded, unbounded * 2, x * unbounded, unbounded.sum(), unbounded @ x.T):
        assert result.bound is None
    assert concatenate([x, unbounded]).bound is None


def test_shapes_that_do_not_fit_are_refused_with_and_without_shares(field):
    for x in deal(field, X):
        for wrong in (
            lambda x=x: x + x[:2],
            lambda x=x: x * x.T,
            lambda x=x: x @ x,
            lambda x=x: x[None] @ x,
            lambda x=x: x.reshape(5, 2),
            lambda x=x: x[3, 0],
            lambda x=x: x[[0, 1]],
            lambda x=x: x[X > 0],
            lambda x=x: x.sum(2),
            lambda x=x: concatenate([x, x[:, :2]]),
            lambda: concatenate([]),
        ):
            with pytest.raises(ShapeError):
                wrong()


def test_a_share_of_another_shape_is_refused(field):
    with pytest.raises(ShapeError):
        SharedArray(field, (3,), 1, 10, field.zeros((4,)))


def test_fields_do_not_mix(field):
    x, other = deal(field, X)[0], deal(ResidueField(2), X)[0]
    for operation in (*BINARY, lambda a, b: a @ b.T, lambda a, b: concatenate([a, b])):
        with pytest.raises(FieldMismatchError):
            operation(x, other)


def test_public_values_that_do_not_fit_the_field_are_refused(field):
    x = deal(field, X)[0]
    with pytest.raises(FieldTooSmallError):
        x + (field.half_order + 1)
    with pytest.raises(LocalFaultError, match="only integers"):
        x + 0.5
    assert public_array(field, [3, -4], holds_shares=True).bound == 4


def test_neither_shares_nor_values_are_printed(field):
    x = deal(field, X)[0]
    assert "share=" not in repr(x)
    assert str(int(x.share.flat[0])) not in repr(x)
