"""A program as a Python file, recorded into the lines that travel (`analyses.circuit.program`).

    async def program(c, tables):
        debt = tables["shop"]["debt"]
        poor = await c.less(debt, 100)
        c.open("poor", poor.sum())

The file runs once, here at the analyst's, on recorders instead of numbers; what it does becomes lines, and only these
are sent. Loops over public ranges are unrolled. It may hold that one function and use a few names of Python; what
imports, opens, loops on a condition or branches on a value is refused with its line before anything runs.
"""

import ast
import itertools
from functools import partial
from typing import Any, NoReturn

from analyses.circuit.program import MAX_STEPS, N_OPERANDS, no_operation, program_of
from analyses.job.job import JobError
from analyst.recorded_vectors import VECTORS
from mpc.hidden import Hidden


def _range(*ends: int) -> range:
    numbers = range(*ends)
    if len(numbers) > MAX_STEPS:
        raise JobError(f"a loop has at most {MAX_STEPS} turns, not {len(numbers)}")
    return numbers


BUILTINS = {"range": _range, "len": len, "sum": sum, "zip": zip, "enumerate": enumerate, "reversed": reversed}
"""Names of Python that a program may use, beside `c` and `tables`."""

REFUSED: dict[type[ast.AST], str] = {
    ast.Import: "imports",
    ast.ImportFrom: "imports",
    ast.While: "loops on a condition; loop over a range",
    ast.If: "branches; write c.select(bit, x, y)",
    ast.IfExp: "branches; write c.select(bit, x, y)",
    ast.Compare: "compares; write await c.less(x, y), c.less_equal, c.equal",
    ast.BoolOp: "branches; bits are multiplied",
    ast.Lambda: "defines a function",
    ast.ClassDef: "defines a class",
    ast.Global: "reaches outside",
    ast.Nonlocal: "reaches outside",
    ast.Try: "catches errors",
    ast.With: "opens a context",
    ast.AsyncWith: "opens a context",
    ast.AsyncFor: "awaits in a loop's head",
    ast.Yield: "yields",
    ast.YieldFrom: "yields",
    ast.Delete: "deletes",
    ast.Assert: "asserts",
    ast.Raise: "raises",
}


class Recorded(Hidden):
    """A step that a program has written: one value per row, which nobody knows here.

    Args:
        recorder: where it is written.
        name: name of the step.
    """

    instead = "a program adds, subtracts and multiplies rows; everything else is `await c.OPERATION(...)`"

    def __init__(self, recorder: "Recorder", name: str) -> None:
        self._recorder, self._name = recorder, name

    def __repr__(self) -> str:
        return f"Recorded({self._name})"

    def __add__(self, other: "Recorded | int") -> "Recorded":
        return self._recorder.step("add", self, other)

    def __radd__(self, other: int) -> "Recorded":
        return self if other == 0 and isinstance(other, int) else self._recorder.step("add", other, self)

    def __sub__(self, other: "Recorded | int") -> "Recorded":
        return self._recorder.step("sub", self, other)

    def __rsub__(self, other: int) -> "Recorded":
        return self._recorder.step("sub", other, self)

    def __mul__(self, other: "Recorded | int") -> "Recorded":
        return self._recorder.step("mul", self, other)

    def __rmul__(self, other: int) -> "Recorded":
        return self._recorder.step("mul", other, self)

    def __neg__(self) -> "Recorded":
        return self._recorder.step("mul", -1, self)

    def sum(self) -> "Summed":
        """Return the sum over the rows, to be opened."""
        return Summed(self._name)


class Summed(Hidden):
    """A sum over the rows, which can be opened and nothing else."""

    instead = "a sum is opened, and computed with afterwards"

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Summed({self.name})"


class Recorder:
    """What a program calls `c`: each operation writes a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers = itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        if name in VECTORS:
            return partial(VECTORS[name], self)
        if name not in N_OPERANDS:
            raise JobError(no_operation(name, f"{', '.join(sorted(VECTORS))}, and open"))

        async def operation(*operands: "Recorded | int", **named: int) -> Recorded:
            if named.keys() - {"scale_bits", "n_bits"}:
                raise JobError(f"{name} takes nothing by name but scale_bits and n_bits")
            return self.step(name, *operands, *named.values())

        return operation

    def step(self, operation: str, *operands: "Recorded | int") -> Recorded:
        """Write a step and return it."""
        if len(operands) != N_OPERANDS[operation]:
            raise JobError(f"{operation} takes {N_OPERANDS[operation]} operands, not {len(operands)}")
        for operand in operands:
            if not isinstance(operand, Recorded | int) or isinstance(operand, bool):
                raise JobError(f"{operation} takes rows and whole numbers, not {type(operand).__name__}")
        texts = [operand._name if isinstance(operand, Recorded) else str(operand) for operand in operands]
        return self.write(f"{operation}({', '.join(texts)})")

    def write(self, what: str) -> Recorded:
        """Write a line and return its step."""
        if len(self.lines) >= MAX_STEPS:
            raise JobError(f"the program has more than {MAX_STEPS} steps")
        name = f"x{next(self._numbers)}"
        self.lines.append(f"{name} = {what}")
        return Recorded(self, name)

    def open(self, name: str, total: Summed) -> None:
        """Write an opening."""
        if not isinstance(total, Summed):
            raise JobError("what is opened is a sum over the rows: c.open(name, x.sum())")
        self.lines.append(f"open {name} = sum({total.name})")


class _Columns(dict[str, Recorded]):
    """Columns of one party, each written when it is first named."""

    def __init__(self, recorder: Recorder, party: str) -> None:
        self._recorder, self._party = recorder, party

    def __missing__(self, name: str) -> Recorded:
        self[name] = self._recorder.write(f"column({self._party}.{name})")
        return self[name]


class _Tables(dict[str, _Columns]):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __missing__(self, party: str) -> _Columns:
        self[party] = _Columns(self._recorder, party)
        return self[party]


def record(text: str, where: str = "the program") -> tuple[str, ...]:
    """Return the lines of a program.

    Args:
        text: source text of the file.
        where: name of the file, for errors.

    Raises:
        JobError: the file holds something else than such a program; names the line.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise JobError(f"{where}: line {error.lineno}: {error.msg}") from None
    _check(tree, where)
    recorder = Recorder()
    names: dict[str, Any] = {"__builtins__": BUILTINS}
    exec(compile(tree, where, "exec"), names)  # noqa: S102 - the analyst's own file, checked above, run by nobody else
    try:
        names["program"](recorder, _Tables(recorder)).send(None)  # nothing that it may await ever waits
    except StopIteration:
        pass
    except JobError as error:
        raise JobError(f"{where}: {_line_of(error, where)}{error}") from None
    except Exception as error:
        raise JobError(f"{where}: {_line_of(error, where)}{type(error).__name__}: {error}") from None
    return program_of(recorder.lines, where).lines


def _line_of(error: Exception, where: str) -> str:
    """Return the line of the program in which an error was raised."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == where:
            line = f"line {trace.tb_lineno}: "
        trace = trace.tb_next
    return line


def _check(tree: ast.Module, where: str) -> None:
    def refuse(syntax: ast.AST, why: str) -> NoReturn:
        raise JobError(f"{where}: line {getattr(syntax, 'lineno', 1)}: {why}")

    body = [syntax for syntax in tree.body if not _is_text(syntax)]
    if len(body) != 1 or not isinstance(body[0], ast.AsyncFunctionDef) or body[0].name != "program":
        refuse(body[0] if body else tree, "a program is one `async def program(c, tables)`, and nothing else")
    function = body[0]
    if [one.arg for one in function.args.args] != ["c", "tables"] or function.decorator_list:
        refuse(function, "a program is `async def program(c, tables)`")
    for syntax in ast.walk(function):
        if isinstance(syntax, ast.FunctionDef | ast.AsyncFunctionDef) and syntax is not function:
            refuse(syntax, "a program defines no function of its own")
        if type(syntax) in REFUSED:
            refuse(syntax, f"a program never {REFUSED[type(syntax)]}")
        if isinstance(syntax, ast.Name) and syntax.id == function.name:
            refuse(syntax, "a program never calls itself")
        name = syntax.id if isinstance(syntax, ast.Name) else syntax.attr if isinstance(syntax, ast.Attribute) else ""
        if name.startswith("_"):
            refuse(syntax, f"the name {name} begins with an underscore")


def _is_text(syntax: ast.stmt) -> bool:
    return (
        isinstance(syntax, ast.Expr) and isinstance(syntax.value, ast.Constant) and isinstance(syntax.value.value, str)
    )
