"""Arrays whose values nobody here knows: what Python would answer about them is an error that says what to write.

Python answers for every object: `x == y` compares identities, `if x:` is always true, NumPy makes an array of objects
of it. Of a shared array all of these would be wrong, without an error. Here each raises TypeError, unless a class
defines it rightly. docs/protocols/sharing.md has the table.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

_COMPARE = "write `await c.less(x, y)`, `c.equal`, `c.less_equal`; `x is y` says whether these are the same object"
_BRANCH = "write `await c.select(bit, x, y)` for both cases, or decide by what was opened, `(await c.open(x)).values`"
_OPEN = "open it first: `(await c.open(x)).values`"
_DIVIDE = "write `await c.divide(x, y, scale_bits)`, or `await c.floor_shift(x, k)` for whole numbers and 2**k"
_BITS = "of 0 and 1 write `1 - x` for not, `x * y` for and, `x + y - x * y` for or, `x + y - 2 * x * y` for either"
_POWER = "write `x * x`, whose degree is twice that of x, or `await c.polynomial(x, coefficients)`"
_SHIFT = "write `x * 2**k`, and to the right `await c.floor_shift(x, k)`"
_WRITE = "make a new array, with `concatenate` of its parts"
_ADD = "only `+=` of an array, and what its class offers"

OPERATORS: dict[str, tuple[str, str]] = {
    **{
        f"__{name}__": (sign, _COMPARE)
        for name, sign in zip(("eq", "ne", "lt", "le", "gt", "ge"), ["==", "!=", "<", "<=", ">", ">="], strict=True)
    },
    "__contains__": ("in", _COMPARE),
    "__hash__": ("hash()", "use `id(x)`, or a key of your own"),
    "__bool__": ("bool()", _BRANCH),
    **{f"__{name}__": (f"{name}()", _OPEN) for name in ("int", "float", "complex", "round", "trunc", "floor", "ceil")},
    "__index__": ("an index", "nobody knows the place: `await c.lookup(table, x)`, or open it"),
    "__abs__": ("abs()", _OPEN),
    "__array__": ("an array of NumPy", _OPEN),
    **{
        f"__{r}{name}__": (sign, _DIVIDE)
        for r in ("", "r")
        for name, sign in (("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("divmod", "divmod()"))
    },
    **{f"__{r}{name}__": (sign, _BITS) for r in ("", "r") for name, sign in (("and", "&"), ("or", "|"), ("xor", "^"))},
    "__invert__": ("~", _BITS),
    **{f"__{r}pow__": ("**", _POWER) for r in ("", "r")},
    **{f"__{r}{name}__": (sign, _SHIFT) for r in ("", "r") for name, sign in (("lshift", "<<"), ("rshift", ">>"))},
    "__setitem__": ("writing into it", _WRITE),
    "__delitem__": ("del", _WRITE),
    **{
        f"__{r}{name}__": (sign, _ADD)
        for r in ("", "r")
        for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("matmul", "@"))
    },
    "__neg__": ("-", _ADD),
    "__pos__": ("+", _ADD),
    "__len__": ("len()", "it has a `shape`, and no parts"),
    "__iter__": ("iter()", "it has a `shape`, and no parts"),
    "__getitem__": ("[]", "it has a `shape`, and no parts"),
}
"""Method to the operator that calls it, and what to write instead."""


class Hidden:
    """Base of arrays of values that nobody here knows. Every operator raises TypeError unless a class overrides it.

    Attributes:
        instead: what to write instead of any operator, where a class has one answer for all.
    """

    __slots__ = ()
    instead: ClassVar[str] = ""

    def _refuse(self, written: str, instead: str) -> NoReturn:
        why = self.instead or f"no member knows its values; {instead}"
        raise TypeError(f"{written} of {type(self).__name__}: {why}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Refuse a universal function of NumPy."""
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        self._refuse(f"numpy.{name}", "write operators and methods of the array; `c.open` what you need in NumPy")

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        """Refuse a function of NumPy."""
        self._refuse(f"numpy.{function.__name__}", "write methods of the array; `c.open` what you need in NumPy")


def _refusal(written: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Hidden, *_: object, **__: object) -> NoReturn:
        self._refuse(written, instead)

    return refuse


for _name, _texts in OPERATORS.items():
    setattr(Hidden, _name, _refusal(*_texts))
