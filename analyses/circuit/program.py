"""A program as it travels: lines of text, each one step, which every owner reads as they are.

    a = column(bank.age)
    d = column(shop.debt)
    poor = less(d, 100)
    x = mul(a, poor)
    open ages_of_poor = sum(x)

A step works on all rows of the joint table alike: row i of its value depends on row i of the table and on nothing else.
What is opened is the sum over the rows, with noise. There are no loops and no branches, so nothing but the lines
decides what is sent. A text has one reading and one spelling: its digest names it.

Ranges. Each step has a public range, computed from the bounds of the columns by interval arithmetic [Moo66]: if every
operand lies in its range, so does the result. Operands that come from one column count as independent, which makes
ranges wider and never narrower; only `mul(x, x)` is known to be no less than 0. How far one record moves an opening
follows from the range of what is summed (`analyses.circuit.plan.sensitivities`).
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analyses.circuit.functions import FUNCTIONS, Range
from analyses.job.job import JobError

MAX_STEPS = 1000
MAX_OPENED = 200
MAX_MASKED = 1000
"""Masked openings per row: together they tell a record's presence apart with an advantage of at most 1000 * 2^-40."""

MAX_SIZE = 1 << 61
"""Largest integer of a step."""

NAME = r"[a-z][a-z0-9_]{0,39}"
LINE = re.compile(rf"(open )?({NAME}) = ({NAME})\((.*)\)")
COLUMN = re.compile(r"[a-z0-9-]+\.[^\s,()]+")
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True)
class Step:
    """One line.

    Attributes:
        name: its name; of an opening the name of the result.
        operation: what is done, a key of `RANGES`; `column` or `sum`.
        operands: names of earlier steps, integers, or the one column as `party.column`.
        line: line as it is written.
        number: number of the line, from 1.
    """

    name: str
    operation: str
    operands: tuple[str | int, ...]
    line: str
    number: int


@dataclass(frozen=True)
class Program:
    """What the lines say.

    Attributes:
        steps: all lines but the openings, in their order.
        opened: the openings, in their order.
        columns: `party.column`, in the order in which they are first named.
    """

    steps: tuple[Step, ...]
    opened: tuple[Step, ...]
    columns: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The text."""
        return tuple(step.line for step in sorted((*self.steps, *self.opened), key=lambda step: step.number))

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal: what an owner's policy names."""
        return digest_of(self.lines)

    @property
    def n_masked(self) -> int:
        """Masked openings of comparisons per row; those of functions follow from ranges."""
        return sum(step.operation in MASKED for step in self.steps)


def digest_of(lines: Sequence[str]) -> str:
    """Return the digest of a text, in hexadecimal."""
    return hashlib.sha256(("\n".join(lines) + "\n").encode()).hexdigest()


def _add(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _sub(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def _mul(a: Range, b: Range) -> Range:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _bit(a: Range, b: Range) -> Range:
    return 0, 1


def _select(bit: Range, a: Range, b: Range) -> Range:
    if not 0 <= bit[0] <= bit[1] <= 1:
        raise ValueError("select takes a bit first: the answer of a comparison, or a column from 0 to 1")
    return min(a[0], b[0]), max(a[1], b[1])


def _low_bits(a: Range, k: Range) -> Range:
    return 0, (1 << _n_bits(k)) - 1


def _floor_shift(a: Range, k: Range) -> Range:
    return a[0] >> _n_bits(k), a[1] >> _n_bits(k)


def _n_bits(k: Range) -> int:
    if k[0] != k[1] or not 1 <= k[0] <= 60:
        raise ValueError("the number of bits is a plain integer from 1 to 60")
    return k[0]


RANGES: Mapping[str, Callable[..., Range]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "less": _bit,
    "less_equal": _bit,
    "equal": _bit,
    "select": _select,
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "low_bits": _low_bits,
    "floor_shift": _floor_shift,
}
"""Operation to the range of its result."""

N_OPERANDS = {name: 3 if name == "select" else 2 for name in RANGES} | {
    name: function.n_operands for name, function in FUNCTIONS.items()
}

SINGLE = "rows have no order in a program, and each step works on one row"

INSTEAD: Mapping[str, str] = {
    "shuffle": SINGLE,
    "group_sums": "for each group multiply equal(key, group) by the values and open the sum: all cost as one",
    "mean": "open the sum and the number of rows, and divide afterwards: noise does not change by that",
    "variance": "open the sums of x, of mul(x, x) and the number of rows, and divide afterwards",
    "smooth": "a function of one's own is no text that owners could read: write a polynomial with mul and truncate",
    "power": "write reciprocal, sqrt or reciprocal_sqrt",
    "random_bits": "what a program opens follows from the rows alone; noise comes of the plan",
    "inverse": "steps are integers with ranges, which have no inverses: write reciprocal or divide",
    "inv": "open sums of products, and invert their matrix afterwards",
    "solve": "open sums of products, and solve afterwards",
    "det": "open sums of products, and take their determinant afterwards",
    "take": "each step works on one row, and has no places",
    "matmul_fixed": "each step works on one row: write mul and truncate, and sums of it",
    "matmul": "each step works on one row: write mul, and sums of it",
    "reduce": "products are reduced where a further step needs it",
}
"""Operations of `Computation` that programs lack, and what to write instead."""

MASKED = frozenset({"less", "less_equal", "equal", "minimum", "maximum", "low_bits", "floor_shift"})
"""Operations that open their operands under a mask (`mpc.protocol.operations.bits`)."""


def no_operation(name: str, besides: str = "column") -> str:
    """Return what is said of an operation that there is not; `besides` is what there is besides those of lines."""
    why = INSTEAD.get(name)
    what = f"there is no operation {name}"
    return f"{what}: {why}" if why else f"{what}; there are {', '.join(sorted(N_OPERANDS))}, {besides}"


def program_of(lines: Sequence[str], where: str = "parameters.program") -> Program:
    """Read a program.

    Raises:
        JobError: a line is none, names what does not stand above it, or there are too many; names the line.
    """
    if not lines or len(lines) > MAX_STEPS:
        raise JobError(f"{where}: a program has 1 to {MAX_STEPS} lines, not {len(lines)}")
    steps: dict[str, Step] = {}
    opened: dict[str, Step] = {}
    columns: dict[str, None] = {}
    for number, line in enumerate(lines, 1):
        try:
            step = _step_of(line, number, steps)
            taken = opened if line.startswith("open ") else steps
            if step.name in taken:
                raise ValueError(f"{step.name} stands above already")
            taken[step.name] = step
            if step.operation == "column":
                columns[str(step.operands[0])] = None
        except ValueError as error:
            raise JobError(f"{where}: line {number}, {line[:80]!r}: {error}") from None
    if not opened:
        raise JobError(f"{where}: nothing is opened; a line such as `open total = sum(x)` is missing")
    if len(opened) > MAX_OPENED:
        raise JobError(f"{where}: {len(opened)} sums are opened, and at most {MAX_OPENED} can be")
    program = Program(tuple(steps.values()), tuple(opened.values()), tuple(columns))
    if not columns:
        raise JobError(f"{where}: no column is named; a line such as `x = column(party.name)` is missing")
    if program.n_masked > MAX_MASKED:
        raise JobError(f"{where}: {program.n_masked} comparisons per row are more than {MAX_MASKED}")
    return program


def _step_of(line: str, number: int, steps: Mapping[str, Step]) -> Step:
    match = LINE.fullmatch(line)
    if match is None:
        raise ValueError("a line is `name = operation(operands)` or `open name = sum(step)`, in small letters")
    opens, name, operation, inside = match.groups()
    texts = inside.split(", ")
    if (operation == "sum") != bool(opens):
        raise ValueError("`open name = sum(step)` is the only way to open, and to add up rows")
    if operation == "column":
        if COLUMN.fullmatch(inside) is None:
            raise ValueError("a column is named as in column(party.name)")
        return Step(name, operation, (inside,), line, number)
    if operation != "sum" and operation not in N_OPERANDS:
        raise ValueError(no_operation(operation))
    needed = 1 if operation == "sum" else N_OPERANDS[operation]
    if len(texts) != needed:
        raise ValueError(f"{operation} takes {needed} operands, not {len(texts)}")
    operands: list[str | int] = []
    for text in texts:
        if INTEGER.fullmatch(text):
            operands.append(int(text))
        elif text in steps:
            operands.append(text)
        else:
            raise ValueError(f"{text[:40]!r} is no step above this line, and no integer")
    if operation != "sum" and all(isinstance(operand, int) for operand in operands):
        raise ValueError("nothing here depends on a column")
    if operation == "sum" and isinstance(operands[0], int):
        raise ValueError("what is added up is a step")
    return Step(name, operation, tuple(operands), line, number)


def ranges_of(
    program: Program, bounds: Mapping[str, Range], *, t: int, where: str = "parameters.program"
) -> dict[str, Range]:
    """Return the range of each step.

    Args:
        program: the steps.
        bounds: column to its bounds.
        t: number of colluding parties: functions are off by more the more there are.
        where: beginning of the texts of errors.

    Raises:
        JobError: a column has no bounds, or a step may leave what 62 bits hold; names the line.
    """
    found: dict[str, Range] = {}

    def of(operand: str | int) -> Range:
        return (operand, operand) if isinstance(operand, int) else found[operand]

    for step in program.steps:
        try:
            if step.operation == "column":
                column = str(step.operands[0])
                if column not in bounds:
                    raise ValueError(f"the job brings no column {column}")
                found[step.name] = bounds[column]
            elif step.operation in FUNCTIONS:
                found[step.name] = FUNCTIONS[step.operation].range_of(t, *map(of, step.operands))
            else:
                found[step.name] = RANGES[step.operation](*map(of, step.operands))
                if step.operation == "mul" and step.operands[0] == step.operands[1]:
                    low, high = of(step.operands[0])
                    found[step.name] = (0 if low <= 0 <= high else min(low * low, high * high), found[step.name][1])
            if max(map(abs, found[step.name])) > MAX_SIZE:
                raise ValueError("its values may have more than 61 bits")
        except ValueError as error:
            raise JobError(f"{where}: line {step.number}, {step.line[:80]!r}: {error}") from None
    return found
