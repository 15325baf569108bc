"""The search for the least noise that is private enough: the only one. Mechanisms say what a parameter costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

from dp.cost.accounting import CalibrationError, check_delta, check_epsilon

F = TypeVar("F", bound=Callable[..., Any])

MAX_REMEMBERED = 256
"""Results of calibrations that are kept: a service meets the same tables and the same epsilon again and again."""


class _Items(tuple[Any, ...]):
    """A mapping as an argument that can be compared: its items."""


def remembered(calibrate: F) -> F:
    """Keep the last results of a calibration by its arguments, each a value that never changes or a mapping of such.

    A calibration evaluates a cost some thirty times, and is a function of public parameters alone; every member of a
    job makes the same one. Refusals are not kept.
    """

    @lru_cache(maxsize=MAX_REMEMBERED)
    def found(*frozen: Any, **named: Any) -> Any:
        return calibrate(*frozen, **{n: dict(value) if type(value) is _Items else value for n, value in named.items()})

    @wraps(calibrate)
    def asked(*arguments: Any, **named: Any) -> Any:
        frozen = {n: _Items(value.items()) if isinstance(value, Mapping) else value for n, value in named.items()}
        return found(*arguments, **frozen)

    return cast(F, asked)


def _itself(rung: int) -> int:
    return rung


@dataclass(frozen=True)
class Ladder:
    """The noise parameters to choose from: rung 1 has the least noise, rung `top` the most.

    Attributes:
        top: number of the highest rung.
        at: rung to parameter, strictly ascending; by default the rung itself, so that every integer can be chosen.
        range_: where the sampler's range ends, for people; empty where that says nothing.
        excess_bits: the search may stop at a rung that exceeds the least one by 2^-excess_bits of itself. Absent: the
            least one is found.
    """

    top: int
    at: Callable[[int], int] = _itself
    range_: str = ""
    excess_bits: int | None = None


def least_noise(spends: Callable[[int], float], ladder: Ladder, *, epsilon: float, delta: float) -> int:
    """Return the least parameter of a ladder of which a release costs at most `epsilon` at `delta`.

    Args:
        spends: the epsilon at `delta` of a parameter; falls as it grows.
        ladder: parameters that can be drawn.
        epsilon: positive.
        delta: strictly between 0 and 1.

    Raises:
        CalibrationError: epsilon or delta is out of range, or no parameter of the ladder suffices.
    """
    check_delta(delta)
    check_epsilon(epsilon)

    def is_enough(rung: int) -> bool:
        return spends(ladder.at(rung)) <= epsilon

    if not is_enough(ladder.top):
        raise CalibrationError(
            f"epsilon {epsilon:g} at delta {delta:g} needs more noise than the sampler can draw{ladder.range_}; use a "
            "larger epsilon or coarser units of the data"
        )
    return ladder.at(last_enough(is_enough, lacking=0, enough=ladder.top, excess_bits=ladder.excess_bits))


def last_enough(is_enough: Callable[[int], bool], *, lacking: int, enough: int, excess_bits: int | None = None) -> int:
    """Return the integer nearest to `lacking` that is enough, by bisection.

    Args:
        is_enough: true at `enough`, false at `lacking`, neither of which is asked for, and it changes once between.
        lacking: below `enough` or above it.
        enough: see there.
        excess_bits: what is found may be off by 2^-excess_bits of itself; absent: by nothing.
    """
    if lacking == 0 < enough:
        lacking, enough = _octave(is_enough, enough)
    while abs(enough - lacking) > (1 if excess_bits is None else max(1, enough >> excess_bits)):
        middle = (lacking + enough) // 2
        if is_enough(middle):
            enough = middle
        else:
            lacking = middle
    return enough


def _octave(is_enough: Callable[[int], bool], top: int) -> tuple[int, int]:
    """Return where bisection of 0 .. top comes to look: between top >> (k + 1), lacking, and top >> k, enough.

    Noise is often a tiny part of the most that can be drawn: k is doubled first, and bisected then.
    """
    halvings, step, too_many = 0, 1, top.bit_length()
    while halvings + step < too_many and is_enough(top >> (halvings + step)):
        halvings, step = halvings + step, 2 * step
    too_many = min(too_many, halvings + step)
    while too_many - halvings > 1:
        middle = (halvings + too_many) // 2
        if is_enough(top >> middle):
            halvings = middle
        else:
            too_many = middle
    return top >> too_many, top >> halvings
