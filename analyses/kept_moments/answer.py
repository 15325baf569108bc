"""What is computed from released second moments: a table, numbers beside it, and what is to be said about them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.job.forecast import NORMAL_95
from analyses.second_moments.released import ReleasedMoments

Floats = NDArray[np.float64]

N_DRAWS = 200
"""Draws of noise from which an error is estimated; its own relative error is a twentieth."""

SEEN = 3.0
"""Standard errors of its noise that a variance must exceed before anything is divided by it."""

CLEAR = 2.0
"""Noise levels above which every combination of columns must vary before their moments are inverted."""

OF_CHANCE = (
    "errors by chance are those of drawing other rows from the same population; they are exact for means, and else "
    "for columns that vary as a normal distribution does"
)


_PRODUCTS = (
    "of products and powers of columns the release holds what its job named, such as age^2 of one owner, and the "
    "question regress answers what follows from that"
)


class AnswerError(ValueError):
    """The release cannot answer the question; the text says why, and what would help."""

    code: str = "answer-impossible"


@dataclass(frozen=True)
class Answer:
    """An answer from a release. It costs no privacy beyond what the release has cost.

    Attributes:
        question: name of the question.
        table: name to values, all of equal length; a value that nothing tells is None.
        about: numbers and texts beside the table.
        notes: sentences that a reader needs.
    """

    question: str
    table: Mapping[str, Sequence[Any]]
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON data."""
        table = {name: list(values) for name, values in self.table.items()}
        return {"question": self.question, **self.about, "table": table, "notes": list(self.notes)}


@dataclass(frozen=True)
class Question:
    """A question to a release.

    Attributes:
        ask: function of the release and, by name, of what the question takes.
        takes: names of its arguments besides the release.
        needs: those without which there is no question.
        about: what it answers, for a list; empty where there is none.
    """

    ask: Callable[..., Answer]
    takes: tuple[str, ...]
    needs: tuple[str, ...] = ()
    about: str = ""


def answered(questions: Mapping[str, Question], name: str, released: Any, given: Mapping[str, Any]) -> Answer:
    """Return the answer to one of some questions.

    Args:
        questions: what can be asked, by name.
        name: name of the question.
        released: what was released, as the questions take it.
        given: arguments by name.

    Raises:
        AnswerError: there is no such question, an argument is missing or not one of it, or the release cannot answer.
    """
    if name not in questions:
        raise AnswerError(f"there is no question {name!r}; there are {', '.join(questions)}")
    question = questions[name]
    for one in given:
        if one not in question.takes:
            raise AnswerError(f"the question {name} takes no {one}; it takes {', '.join(question.takes)}")
    for one in question.needs:
        if not given.get(one):
            raise AnswerError(f"the question {name} needs {one}")
    return question.ask(released, **given)


def numbers(values: Floats) -> list[float | None]:
    """Return numbers as JSON holds them: None where there is none."""
    return [float(value) if np.isfinite(value) else None for value in values]


def intervals(
    values: Floats, errors: Floats, low: Floats | float = -np.inf, high: Floats | float = np.inf
) -> list[list[float] | None]:
    """Return 95 % intervals of normal estimates, cut to what is possible; None where there is none."""
    half = NORMAL_95 * errors
    return ends(np.clip(values - half, low, high), np.clip(values + half, low, high))


def ends(low: Floats, high: Floats) -> list[list[float] | None]:
    """Return pairs as JSON holds them; None where an end is no number."""
    return [[float(a), float(b)] if np.isfinite([a, b]).all() else None for a, b in zip(low, high, strict=True)]


def ratios(logs: Floats, errors: Floats) -> tuple[list[Any], list[Any], list[Any]]:
    """Return 95 % intervals of normal logarithms, the numbers that they are of, and the intervals of these."""
    half = NORMAL_95 * errors
    with np.errstate(over="ignore"):
        of, low, high = np.exp(logs), np.exp(logs - half), np.exp(logs + half)
    return intervals(logs, errors), numbers(of), ends(low, high)


def chosen(moments: ReleasedMoments, names: Sequence[str]) -> ReleasedMoments:
    """Return the moments of some columns; of all where none is named.

    Raises:
        AnswerError: a column is not in the release, or is named twice.
    """
    if len(set(names)) < len(names):
        raise AnswerError(f"column {next(n for n in names if list(names).count(n) > 1)!r} is named twice")
    try:
        return moments.part(names) if names else moments
    except KeyError as error:
        if any(sign in error.args[0] for sign in "*^:"):
            raise AnswerError(f"{error.args[0]!r}: {_PRODUCTS}") from None
        known = ", ".join(moments.names)
        raise AnswerError(f"the release has no column {error.args[0]!r}; it has {known}") from None


def block(matrices: Floats, rows: Sequence[int], columns: Sequence[int]) -> Floats:
    """Return some rows and columns of each matrix, shape (..., rows, columns)."""
    return matrices[..., list(rows), :][..., list(columns)]


def features_of(moments: ReleasedMoments, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that each name stands for in a model with an intercept: a category for all values but one.

    Raises:
        AnswerError: a column is not in the release.
    """
    found = {}
    for name in names:
        values = [one for one in moments.names if one.startswith(f"{name}=") and name not in moments.names]
        found[name] = values[1:] if values else [name]
    chosen(moments, [one for columns in found.values() for one in columns])
    return found


def explaining(moments: ReleasedMoments, label: str, columns: Sequence[str]) -> list[str]:
    """Return the columns of a model that explains a label: of the names that are given, or of all others.

    Raises:
        AnswerError: a column is not in the release, the label is among them, or there is none.
    """
    named = features_of(moments, columns or others_than(moments, label))
    features = [name for names in named.values() for name in names]
    if label in features or not features:
        raise AnswerError(f"the label {label!r} cannot explain itself: name other columns")
    return features


def p_values(values: Floats, errors: Floats) -> list[float | None]:
    """Return how likely a normal estimate of 0 with this error is as far from it; None without an error."""
    return [2 * NormalDist().cdf(-abs(v / e)) if e > 0 else None for v, e in zip(values, errors, strict=True)]


def others_than(moments: ReleasedMoments, label: str) -> list[str]:
    """Return the names of all columns but a label, values of the same category and products; categories once each."""
    whole = [name for name in moments.names if name not in moments.factors]
    sources = [name if name.partition("=")[0] in moments.names else name.partition("=")[0] for name in whole]
    return [name for name in dict.fromkeys(sources) if name not in (label, label.partition("=")[0])]


def has_rows(moments: ReleasedMoments) -> bool:
    """Return whether the number of rows is distinguishable from noise."""
    return bool(moments.matrix[-1, -1] > moments.noise_level)


def check_rows(moments: ReleasedMoments) -> None:
    """Refuse an answer where the number of rows is not distinguishable from noise.

    Raises:
        AnswerError: it is not.
    """
    if not has_rows(moments):
        raise AnswerError("too few rows for this epsilon: the release is only noise; ask for a larger epsilon")


def hidden_square(moments: ReleasedMoments, vector: Floats) -> float:
    """Return the standard error, by noise, of the sum over rows of (v.(x, 1))^2: no less may such a sum be taken for.

    Args:
        moments: released moments of the columns.
        vector: v, in the columns' own units, shape (columns + 1,).
    """
    own = vector @ moments.to_own
    return float(np.sqrt(2) * moments.deviation * (own @ own))


def hidden_left(moments: ReleasedMoments, line: Floats) -> float:
    """Return `hidden_square` of what a line in scaled columns leaves of a scaled label."""
    return float(np.sqrt(2) * moments.deviation * (1 + line @ line))


def noise_of_products(moments: ReleasedMoments, left: Floats, right: Floats) -> Floats:
    """Return the covariances, by noise, of numbers u' R v, with R the moments in the columns' own units.

    The noise of the scaled matrix is E with independent entries of variance s^2, 2 s^2 on the diagonal. So for vectors
    a, b, c, d

        Cov(a' E b, c' E d) = s^2 ((a.c)(b.d) + (a.d)(b.c)).

    Args:
        moments: released moments of the columns.
        left: u of each number, shape (numbers, columns + 1).
        right: v of each, likewise.

    Returns:
        shape (numbers, numbers).
    """
    a, b = left @ moments.to_own, right @ moments.to_own
    return np.asarray(moments.deviation**2 * ((a @ a.T) * (b @ b.T) + (a @ b.T) * (b @ a.T)), dtype=np.float64)
