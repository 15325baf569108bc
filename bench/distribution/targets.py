"""What our estimates were to reach, and what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.distribution.figures import W1, Setting
from bench.distribution.methods import EMS, MASKED
from bench.distribution.numbers import DISTANCE, ONE_MAP, SECONDS, Number
from bench.distribution.samples import BETA, SAMPLES

MOST_W1 = {0.5: 0.0098, 1.0: 0.0050, 2.0: 0.0026}
"""Largest W1 of SW+EMS on Beta(5, 2), by epsilon."""

MOST_W1_OF_TAXI = 0.0058
LEAST_RATIO = 20.0
MOST_S = {ONE_MAP: 0.010}


@dataclass(frozen=True)
class Reached:
    """One target.

    Attributes:
        what: in words.
        asked: the target in words.
        measured: in words.
        is_met: whether it is.
    """

    what: str
    asked: str
    measured: str
    is_met: bool


def reached(settings: Sequence[Setting], numbers: Sequence[Number]) -> list[Reached]:
    """Return all targets that were measured."""
    w1 = {(s.data, s.epsilon): s.errors for s in settings if s.metric == W1 and s.figure == "3.2"}
    found = []
    for epsilon, most in MOST_W1.items():
        if (errors := w1.get((BETA, epsilon))) is not None:
            what = f"W1 of SW+EMS, {BETA}, 256 buckets, epsilon {epsilon:g}"
            found.append(Reached(what, f"{most:.4f}", f"{errors[EMS]:.4f}", errors[EMS] <= most))
    for name in SAMPLES:
        ratios = {epsilon: e[EMS] / e[MASKED] for (data, epsilon), e in w1.items() if data == name}
        if ratios:
            least = min(ratios.values())
            text = ", ".join(f"{ratio:.0f} at {epsilon:g}" for epsilon, ratio in sorted(ratios.items()))
            what = f"W1 of SW+EMS over that of the masked sum at the same epsilon, {name}"
            found.append(Reached(what, f"{LEAST_RATIO:g}", text, least >= LEAST_RATIO))
    for number in numbers:
        if number.kind == DISTANCE:
            met = number.value <= MOST_W1_OF_TAXI
            text = f"{number.value:.5f}, {number.note}"
            found.append(Reached(f"W1 of {number.what}", f"{MOST_W1_OF_TAXI:.4f}", text, met))
        if number.kind == SECONDS and number.what in MOST_S:
            most = MOST_S[number.what]
            what = f"{number.what}, {number.note}: processor time"
            found.append(Reached(what, _seconds(most), _seconds(number.value), number.value <= most))
    return found


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
