"""Arrays of secrets: what one member holds of a shared array, and the arithmetic that needs no message.

Operators never communicate. Sums and public factors keep the degree of a sharing; products of two shared arrays add the
degrees. A degree grows until the roster is too small to open it; `Computation.reduce` brings it back to t for one round
of messages. So the price of a formula can be read off it: `(x * y).sum()` is local, whatever the length.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from functools import reduce
from math import prod
from operator import attrgetter
from types import EllipsisType
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.matmul import matrix_product
from mpc.arithmetic.words import Words
from mpc.errors import FieldMismatchError, ShapeError
from mpc.hidden import OPERATORS, Hidden

Index = int | slice | EllipsisType | None
Public = int | NDArray[Any]


@dataclass(frozen=True, eq=False)
class SharedArray(Hidden):
    """One member's view of an array of secrets. All members hold one of the same shape, degree and bound.

    Immutable by convention: nobody writes into `share`, so slices and reshapes do not copy. What an operator or a
    function of NumPy cannot answer rightly raises TypeError (`mpc.hidden`); docs/protocols/sharing.md lists
    them.

    Attributes:
        field: where the elements live.
        shape: shape of the array.
        degree: degree of the sharing: `degree + 1` shares determine the secrets. A public constant has degree 0.
        bound: public bound on the size of every element as an integer; None for uniform elements of the field, whose
            size means nothing. Opening refuses what might have wrapped around.
        share: packed words, shape `(n_words, *shape)`; None for a member that holds no shares (the coordinator, an
            input-only party), who follows shapes and degrees only. Not shown by repr.
    """

    field: ResidueField
    shape: tuple[int, ...]
    degree: int
    bound: int | None
    share: Words | None = attribute(repr=False)

    def __post_init__(self) -> None:
        if self.share is not None and self.share.shape != (self.field.n_words, *self.shape):
            raise ShapeError(f"the share has shape {self.share.shape[1:]}, but the shared array has shape {self.shape}")

    # -- shape -----------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def T(self) -> "SharedArray":  # noqa: N802 - NumPy's name
        """The array with its axes reversed."""
        axes = tuple(range(self.ndim, 0, -1))
        return self._with(self.shape[::-1], None if self.share is None else self.share.transpose(0, *axes))

    def reshape(self, *shape: int) -> "SharedArray":
        """Return the elements, in row-major order, in another shape; one entry may be -1."""
        try:
            new_shape = _pattern(self.shape).reshape(shape).shape
        except ValueError as error:
            raise ShapeError(f"{self.size} elements of shape {self.shape} do not fit shape {shape}") from error
        return self._with(new_shape, None if self.share is None else self.share.reshape(len(self.share), *new_shape))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> "SharedArray":
        """Return the part that integers, slices, `...` and `None` select; no lists or masks."""
        chosen = index if isinstance(index, tuple) else (index,)
        if any(isinstance(i, Hidden) for i in chosen):
            self._refuse(*OPERATORS["__index__"])
        if not all(i is None or isinstance(i, (int, np.integer, slice, EllipsisType)) for i in chosen) or any(
            isinstance(i, bool) for i in chosen
        ):
            raise ShapeError("shared arrays are indexed by integers, slices, ... and None only")
        try:
            new_shape = _pattern(self.shape)[chosen].shape
        except IndexError as error:
            raise ShapeError(f"index {index} does not fit shape {self.shape}") from error
        return self._with(new_shape, None if self.share is None else self.share[(slice(None), *chosen)])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a shared array without axes has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator["SharedArray"]:
        return (self[row] for row in range(len(self)))

    # -- sums ------------------------------------------------------------------------------------------------------

    def __add__(self, other: "SharedArray | Public") -> "SharedArray":
        a, b = self.aligned(other)
        share = _elementwise(self.field.add, a.share, b.share)
        return SharedArray(self.field, a.shape, max(a.degree, b.degree), _plus(a.bound, b.bound), share)

    __radd__ = __add__

    def __sub__(self, other: "SharedArray | Public") -> "SharedArray":
        a, b = self.aligned(other)
        share = _elementwise(self.field.subtract, a.share, b.share)
        return SharedArray(self.field, a.shape, max(a.degree, b.degree), _plus(a.bound, b.bound), share)

    def __rsub__(self, other: Public) -> "SharedArray":
        return -self + other

    def __neg__(self) -> "SharedArray":
        return self * -1

    def __pos__(self) -> "SharedArray":
        return self

    def sum(self, axis: int | None = None) -> "SharedArray":
        """Return the sum of all elements, or along one axis."""
        if axis is None:
            return self.reshape(-1).sum(0)
        if not -self.ndim <= axis < self.ndim:
            raise ShapeError(f"shape {self.shape} has no axis {axis}")
        where = axis % self.ndim
        shape = self.shape[:where] + self.shape[where + 1 :]
        bound = None if self.bound is None else self.bound * self.shape[where]
        share = None if self.share is None else _summed(self.field, np.moveaxis(self.share, where + 1, 1))
        return SharedArray(self.field, shape, self.degree, bound, share)

    # -- products --------------------------------------------------------------------------------------------------

    def __mul__(self, other: "SharedArray | Public") -> "SharedArray":
        if isinstance(other, (int, np.integer)):
            share = (
                None
                if self.share is None
                else self.field.scale(_flat(self.share), int(other)).reshape(self.share.shape)
            )
            return replace(self, bound=_times(self.bound, abs(int(other))), share=share)
        a, b = self.aligned(other)
        share = _elementwise(self.field.multiply, a.share, b.share)
        return SharedArray(self.field, a.shape, a.degree + b.degree, _times(a.bound, b.bound), share)

    __rmul__ = __mul__

    def __matmul__(self, other: "SharedArray | NDArray[Any]") -> "SharedArray":
        """Return the matrix product; vectors as in NumPy. At most two axes each."""
        return _matrix_product(self, self._shared(other))

    def __rmatmul__(self, other: NDArray[Any]) -> "SharedArray":
        return _matrix_product(self._shared(other), self)

    # -- NumPy -----------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> "SharedArray":
        """Do what the operator of a universal function does; an array of NumPy on the left leads here, too.

        Raises:
            TypeError: it is no operator of shared arrays, or is to write into an array of NumPy.
        """
        names = UFUNCS.get(ufunc)
        if names is None or method != "__call__" or options:
            super().__array_ufunc__(ufunc, method, *inputs, **options)
        assert names is not None
        if isinstance(inputs[0], SharedArray):
            done: SharedArray = getattr(inputs[0], names[0])(*inputs[1:])
        else:
            done = getattr(self, names[1])(inputs[0])
        return done

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        """Do what a function of NumPy does where an array's methods do the same.

        Raises:
            TypeError: none of them does.
        """
        ours = FUNCTIONS.get(function)
        if ours is None:
            super().__array_function__(function, types, arguments, options)
        assert ours is not None
        return ours(*arguments, **options)

    # -- operands --------------------------------------------------------------------------------------------------

    def _with(self, shape: tuple[int, ...], share: Words | None) -> "SharedArray":
        return replace(self, shape=shape, share=share)

    def _shared(self, other: "SharedArray | ArrayLike") -> "SharedArray":
        """Return an operand as a shared array; a public one becomes the constant polynomial, degree 0."""
        if isinstance(other, SharedArray):
            if other.field != self.field:
                raise FieldMismatchError(
                    f"the operands live in different fields, of {self.field.primes} and {other.field.primes}"
                )
            return other
        return public_array(self.field, other, holds_shares=self.share is not None)

    def aligned(self, other: "SharedArray | ArrayLike") -> tuple["SharedArray", "SharedArray"]:
        """Return both operands broadcast to their common shape.

        Raises:
            ShapeError: they have none.
            FieldMismatchError: they live in different fields.
        """
        b = self._shared(other)
        try:
            shape = np.broadcast_shapes(self.shape, b.shape)
        except ValueError as error:
            raise ShapeError(f"shapes {self.shape} and {b.shape} do not fit each other") from error
        return _broadcast(self, shape), _broadcast(b, shape)


def public_array(field: ResidueField, values: ArrayLike, *, holds_shares: bool) -> SharedArray:
    """Return a public constant as a sharing of degree 0: everybody's share is the value itself.

    Args:
        field: where it shall live.
        values: integers.
        holds_shares: whether I am a compute party.

    Raises:
        FieldTooSmallError, LocalFaultError: see `ResidueField.encode`.
    """
    integers = np.asarray(values)
    words = field.encode(integers.reshape(-1)).reshape(field.n_words, *integers.shape)
    bound = max((abs(int(v)) for v in (integers.min(), integers.max())), default=0) if integers.size else 0
    return SharedArray(field, integers.shape, 0, bound, words if holds_shares else None)


def concatenate(arrays: Sequence[SharedArray], axis: int = 0) -> SharedArray:
    """Join arrays along an axis that they have. Degree and bound are the largest of theirs.

    Raises:
        ShapeError: nothing to join, or shapes differ on another axis.
        FieldMismatchError: different fields.
    """
    if not arrays:
        raise ShapeError("at least one array is needed to concatenate")
    first = arrays[0]
    same_field = [first._shared(array) for array in arrays]
    try:
        shape = np.concatenate([_pattern(array.shape) for array in same_field], axis).shape
    except ValueError as error:
        raise ShapeError(
            f"shapes {[array.shape for array in same_field]} cannot be joined along axis {axis}"
        ) from error
    shares = [array.share for array in same_field if array.share is not None]
    where = axis % first.ndim + 1
    bounds = [array.bound for array in same_field]
    return SharedArray(
        first.field,
        shape,
        max(array.degree for array in same_field),
        None if None in bounds else max(cast(list[int], bounds)),
        np.concatenate(shares, axis=where) if shares else None,
    )


def stack(arrays: Sequence[SharedArray]) -> SharedArray:
    """Join arrays of one shape along a new first axis."""
    return concatenate([array[None] for array in arrays])


def combination(arrays: Sequence[SharedArray], factors: Sequence[int]) -> SharedArray:
    """Return the sum of arrays of one shape, each times a public integer."""
    first = arrays[0]
    bounds = [_times(array.bound, abs(factor)) for array, factor in zip(arrays, factors, strict=True)]
    shares = [_flat(array.share) for array in arrays if array.share is not None]
    share = None
    if shares:
        flat = first.field.combine(shares, [first.field.weights_of(factor) for factor in factors])
        share = flat.reshape(first.field.n_words, *first.shape)
    degree = max(array.degree for array in arrays)
    return SharedArray(first.field, first.shape, degree, reduce(_plus, bounds), share)


def _transposed(array: SharedArray) -> SharedArray:
    return array.T


def _reshaped(array: SharedArray, shape: int | tuple[int, ...]) -> SharedArray:
    return array.reshape(*(shape if isinstance(shape, tuple) else (shape,)))


UFUNCS: dict[Any, tuple[str, str]] = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.matmul: ("__matmul__", "__rmatmul__"),
    np.negative: ("__neg__", ""),
    np.positive: ("__pos__", ""),
}
"""Universal function of NumPy to the methods that do it, with the array on the left and on the right."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: SharedArray.sum,
    np.concatenate: concatenate,
    np.stack: stack,
    np.transpose: _transposed,
    np.reshape: _reshaped,
    np.shape: attrgetter("shape"),
    np.ndim: attrgetter("ndim"),
    np.size: attrgetter("size"),
}
"""Function of NumPy to what does it; with other arguments than these take, it is an error."""


def _pattern(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return an array of this shape in one byte of memory, to ask NumPy what shape results."""
    return np.broadcast_to(np.False_, shape)


def _flat(words: Words) -> Words:
    """Return the elements along one axis: the field takes no arrays without axes."""
    return words.reshape(len(words), -1)


def _elementwise(operation: Callable[[Words, Words], Words], a: Words | None, b: Words | None) -> Words | None:
    return None if a is None or b is None else operation(_flat(a), _flat(b)).reshape(a.shape)


def _broadcast(array: SharedArray, shape: tuple[int, ...]) -> SharedArray:
    if array.share is None or array.shape == shape:
        return replace(array, shape=shape)
    n_words = array.field.n_words
    aligned = array.share.reshape(n_words, *(1,) * (len(shape) - array.ndim), *array.shape)
    return replace(array, shape=shape, share=np.broadcast_to(aligned, (n_words, *shape)))


def _summed(field: ResidueField, words: Words) -> Words:
    """Sum along axis 1 by halving: as many passes as the length has bits, each over whole arrays."""
    if words.shape[1] == 0:
        return field.zeros(words.shape[2:])
    while words.shape[1] > 1:
        half = words.shape[1] // 2
        total = field.add(words[:, :half], words[:, half : 2 * half])
        if words.shape[1] % 2:
            field.accumulate(total[:, :1], words[:, -1:])
        words = total
    return words[:, 0]


def _matrix_product(a: SharedArray, b: SharedArray) -> SharedArray:
    if not (1 <= a.ndim <= 2 and 1 <= b.ndim <= 2) or a.shape[-1] != b.shape[0]:
        raise ShapeError(f"shapes {a.shape} and {b.shape} have no matrix product")
    shape = a.shape[:-1] + b.shape[1:]
    bound = _times(_times(a.bound, b.bound), a.shape[-1])
    share = None
    if a.share is not None and b.share is not None:
        n_words = a.field.n_words
        left = a.share.reshape(n_words, prod(a.shape[:-1]), a.shape[-1])
        right = b.share.reshape(n_words, b.shape[0], prod(b.shape[1:]))
        share = matrix_product(a.field, left, right).reshape(n_words, *shape)
    return SharedArray(a.field, shape, a.degree + b.degree, bound, share)


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _times(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a * b
