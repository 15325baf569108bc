"""Openings to which a row adds nothing unless one step has one value there: sums by groups, above all.

    b = equal(key, 3)
    x = mul(b, amount)
    open amount_3 = sum(x)

Row i of x is 0 unless row i of `key` is 3. So of openings that ask for different values of `key` a row changes those of
one value at most, however many groups there are, and of openings that ask for values of two keys those of one pair.
`conditions_of` says for each step under which such conditions alone it can differ from 0; it may miss some, and never
states one that does not hold:

    step                           can differ from 0 only where
    equal(s, c)                    s = c
    mul(a, b)                      a and b can
    add(a, b), sub(a, b)           a or b can: what both ask for
    select(b, x, y)                b and x, or y can
    low_bits(a, k), floor_shift    a can
    sub(1, s), s from 0 to 1       s = 0
    any step s from 0 to 1         s = 1, besides
"""

from collections.abc import Mapping, Sequence

from analyses.circuit.functions import Range
from analyses.circuit.program import Program, Step

Condition = tuple[str, int]
"""A step and the value that it must have."""

Case = tuple[Condition, ...]
"""Values of some steps, all of which a row must have."""

Conditions = frozenset[Condition] | None
"""Conditions under which alone a step can differ from 0, all of which must hold; None where it is always 0."""


def conditions_of(program: Program, ranges: Mapping[str, Range]) -> dict[str, Conditions]:
    """Return the conditions of each step.

    Args:
        program: the steps.
        ranges: range of each step.
    """
    found: dict[str, Conditions] = {}
    for step in program.steps:
        conditions = _of(step, [_operand(operand, found) for operand in step.operands], ranges)
        if conditions is not None and ranges[step.name] == (0, 1):
            conditions |= {(step.name, 1)}
        found[step.name] = conditions
    return found


def _operand(operand: str | int, found: Mapping[str, Conditions]) -> Conditions:
    if isinstance(operand, int):
        return frozenset() if operand else None
    return found.get(operand, frozenset())


def _of(step: Step, of: Sequence[Conditions], ranges: Mapping[str, Range]) -> Conditions:
    match step.operation, step.operands:
        case ("equal", (str(s), int(c))) | ("equal", (int(c), str(s))):
            return frozenset({(s, c)})
        case ("sub", (1, str(s))) if ranges[s] == (0, 1):
            return frozenset({(s, 0)})
        case ("add" | "sub", _):
            return _either(of[0], of[1])
        case ("mul", _):
            return _both(of[0], of[1])
        case ("select", _):
            return _either(_both(of[0], of[1]), of[2])
        case ("low_bits" | "floor_shift", _):
            return of[0]
        case _:
            return frozenset()


def _both(a: Conditions, b: Conditions) -> Conditions:
    return None if a is None or b is None else a | b


def _either(a: Conditions, b: Conditions) -> Conditions:
    if a is None or b is None:
        return b if a is None else a
    return a & b


def exclusive_values(program: Program, ranges: Mapping[str, Range]) -> tuple[Case | None, ...]:
    """Return for each opening the case that it asks for, the values of the same steps; None where it asks for none.

    Two different cases differ in the value of a step that both name, so no row is in both. The first step is the one of
    which most different values are asked for, by most openings; of several the first by name. Further ones are those
    that all of these openings ask for as well, and not all for the same value.
    """
    conditions = conditions_of(program, ranges)
    asked = [dict(sorted(conditions[str(step.operands[0])] or ())) for step in program.opened]
    steps = sorted({name for each in asked for name in each})
    if not steps:
        return (None,) * len(asked)

    def rank(name: str) -> tuple[int, int]:
        values = [each[name] for each in asked if name in each]
        return len(set(values)), len(values)

    most = max(steps, key=rank)  # of equals the first by name
    having = [each for each in asked if most in each]
    further = [
        s for s in steps if s != most and all(s in each for each in having) and len({each[s] for each in having}) > 1
    ]
    named = (most, *further)
    return tuple(tuple((name, each[name]) for name in named) if most in each else None for each in asked)


def text_of(case: Case) -> str:
    """Return a case as people read it."""
    return " and ".join(f"{step} = {value}" for step, value in case)
