"""Each line of the table in docs/protocols/sharing.md, at every party and at a member without shares."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from sharings import random_words

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import Opening
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import LocalFaultError, ShapeError
from mpc.hidden import OPERATORS, Hidden
from mpc.protocol.operations.gram_sum import GramSum
from mpc.protocol.operations.noise import NoisySum
from mpc.protocol.operations.openings import OpenedArray
from mpc.protocol.shared import SharedArray

PAGE = Path(__file__).parents[3] / "docs" / "protocols" / "sharing.md"
FIELD, N_PARTIES = ResidueField(3), 5
X, Y = np.arange(-6, 6).reshape(3, 4), np.array([[5, -1, 0, 7], [2, 2, -9, 4], [1, 3, -3, 8]])
N = np.arange(1, 13).reshape(3, 4)


def lines():
    section = PAGE.read_text().split("## Operators and NumPy")[1].split("\n## ")[0]
    return [
        (text.replace("\\|", "|"), kind)
        for text, kind in re.findall(
            r"^\| `(.+)` \| (right|TypeError|ShapeError|LocalFaultError)", section, re.MULTILINE
        )
    ]


LINES = lines()
RIGHT = [text for text, kind in LINES if kind == "right"]
ERRORS = {"TypeError": TypeError, "ShapeError": ShapeError, "LocalFaultError": LocalFaultError}
REFUSED = [(text, ERRORS[kind]) for text, kind in LINES if kind != "right"]


def deal(values, seed):
    scheme = ShamirScheme(FIELD, N_PARTIES, 1)
    flat = FIELD.encode(values.reshape(-1))
    derived = {r: random_words(FIELD, flat.shape[1:], f"{seed} {r}") for r in scheme.derived_receivers(1)}
    shares = derived | scheme.deal(1, flat, derived)
    held = [shares[p].reshape(FIELD.n_words, *values.shape) for p in scheme.parties]
    return [SharedArray(FIELD, values.shape, 1, 12, share) for share in (*held, None)]


def done(text, x, y):
    """Run a line; return its value, or of a statement what `x` is afterwards."""
    names = {"x": x, "y": y, "n": N.copy(), "np": np, "math": math}
    if re.search(r" [-+*@/&]*= ", text) or text.startswith("del "):
        exec(text, names)
        return names["x"]
    return eval(text, names)


def opened(arrays):
    """Open what all parties made of a line: arrays, lists of them, or what they know without opening."""
    first = arrays[0]
    if isinstance(first, list):
        return np.array([opened(list(of_all)) for of_all in zip(*arrays, strict=True)])
    if not isinstance(first, SharedArray):
        assert all(a == first for a in arrays)
        return first
    *holders, outsider = arrays
    assert (outsider.shape, outsider.degree, outsider.share) == (first.shape, first.degree, None)
    scheme = ShamirScheme(FIELD, N_PARTIES, first.degree)
    flat = {p: a.share.reshape(FIELD.n_words, -1) for p, a in zip(scheme.parties, holders, strict=True)}
    return FIELD.decode(scheme.recombine(flat)).reshape(first.shape)


def test_the_table_has_every_operator():
    assert len(LINES) > 130
    words = {word for text, _ in LINES for word in text.split()}
    signs = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "@", "/", "//", "%", "**", "&", "|", "^", "<<", ">>")
    assert words >= {*signs, "+=", "-=", "*=", "@=", "/=", "**=", "&=", "~x", "-x", "+x", "in", "not", "and", "if"}


@pytest.mark.parametrize("text", RIGHT)
def test_what_the_table_calls_right_is_what_numpy_says(text):
    result = opened([done(text, x, y) for x, y in zip(deal(X, "x"), deal(Y, "y"), strict=True)])
    np.testing.assert_array_equal(result, done(text, X.copy(), Y.copy()))


@pytest.mark.parametrize(("text", "error"), REFUSED)
def test_all_else_is_an_error_that_says_what_to_write(text, error):
    for x, y in zip(deal(X, "x"), deal(Y, "y"), strict=True):
        with pytest.raises(error) as raised:
            done(text, x, y)
        said = str(raised.value)
        assert len(said) > 20
        assert not re.search(r"unsupported operand|NotImplemented|object is not", said), said


def others():
    """What else stands for hidden values, or holds opened ones."""
    noise = NoisySum(FIELD, (3,), 2, FIELD.zeros((3,)))
    found = OpenedArray(np.array([7]), (), (), ResidueField(1))
    return [noise, GramSum(None, FIELD, 2, holds_shares=False), found, Opening(FIELD.zeros((1,)), ())]


@pytest.mark.parametrize("value", others(), ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "text",
    [
        *("v == v", "v == 7", "v != v", "v < 1", "bool(v)", "not v", "hash(v)", "int(v)", "len(v)", "list(v)", "v + 1"),
        *("1 - v", "v * 2", "v / 2", "-v", "v[0]", "v[0] = 1", "7 in v", "np.asarray(v)", "np.sum(v)", "np.add(v, 1)"),
        *("n + v", "v & 1"),
    ],
)
def test_other_hidden_values_and_openings_have_no_operators(value, text):
    with pytest.raises(TypeError, match=type(value).__name__):
        exec(text, {"v": value, "np": np, "n": N})


def test_every_operator_of_python_is_refused_unless_a_class_defines_it():
    """Whatever `object` or NumPy would make of it. Attributes, printing and copies are no operators."""
    of_python = {name for kind in (int, float, complex, list, set, dict) for name in vars(kind)}
    left = of_python - {*OPERATORS} - {*vars(object)} - {n for n in of_python if not n.startswith("__")}
    assert left <= {
        "__reversed__",  # by `__len__` and `__getitem__`
        "__getnewargs__",
        "__getformat__",
        "__setformat__",
        "__class_getitem__",
        "__iadd__",  # as the operator without the assignment
        "__imul__",
        *(f"__{r}{i}__" for r in "i" for i in ("and", "or", "xor", "sub")),
        "__ior__",
    }
    assert all(getattr(Hidden, name) is not getattr(object, name, None) for name in OPERATORS)
