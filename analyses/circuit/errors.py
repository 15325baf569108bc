"""How far a step may be off what exact arithmetic gives: functions round, and further steps carry that on.

    step                              off by at most, operands off by e
    column                            0
    add(x, y), sub(x, y)              e_x + e_y
    mul(x, y)                         max |x| e_y + max |y| e_x
    less, less_equal, equal           1 where an operand is off, else 0
    select(b, x, y)                   max(e_x, e_y); the width of the range where b is off
    minimum, maximum                  max(e_x, e_y)
    floor_shift(x, k)                 e_x / 2^k + 1 where x is off, else 0
    a function                        its own error, and how far e_x and e_y can grow (`Function.error_of`)

No step is off by more than the width of its range, in which both numbers lie. `low_bits` of what is off says nothing,
and is refused.
"""

from collections.abc import Mapping
from fractions import Fraction

from analyses.circuit.functions import FUNCTIONS, Range, size_of
from analyses.circuit.program import Program, Step
from analyses.circuit.steps import ranges_of_operands
from analyses.job.job import JobError

COMPARISONS = ("less", "less_equal", "equal")


def errors_of(
    program: Program, ranges: Mapping[str, Range], *, t: int, where: str = "parameters.program"
) -> dict[str, Fraction]:
    """Return the bound on the error of each step, in units.

    Args:
        program: the steps.
        ranges: range of each step.
        t: number of colluding parties.
        where: beginning of the texts of errors.

    Raises:
        JobError: bits are taken of what is off; names the line.
    """
    found: dict[str, Fraction] = {}
    for step in program.steps:
        errors = [found.get(o, Fraction(0)) if isinstance(o, str) else Fraction(0) for o in step.operands]
        if step.operation == "low_bits" and errors[0]:
            raise JobError(
                f"{where}: line {step.number}, {step.line[:80]!r}: {step.operands[0]} is rounded, so its low bits say "
                "nothing"
            )
        low, high = ranges[step.name]
        found[step.name] = min(_error_of(step, errors, ranges, t), Fraction(high - low))
    return found


def _error_of(step: Step, errors: list[Fraction], ranges: Mapping[str, Range], t: int) -> Fraction:
    if step.operation == "column":
        return Fraction(0)
    if step.operation in FUNCTIONS:
        return FUNCTIONS[step.operation].error_of(t, errors, *ranges_of_operands(step, ranges))
    if not any(errors):
        return Fraction(0)
    if step.operation in ("add", "sub"):
        return errors[0] + errors[1]
    if step.operation == "mul":
        sizes = [size_of(of) for of in ranges_of_operands(step, ranges)]
        return sizes[0] * errors[1] + sizes[1] * errors[0]
    if step.operation in COMPARISONS:
        return Fraction(1)
    if step.operation == "floor_shift":
        return errors[0] / (1 << int(step.operands[1])) + 1
    if step.operation == "select" and errors[0]:
        low, high = ranges[step.name]
        return Fraction(high - low)
    return max(errors)
