"""What a plan says about noise: for each view the release that a job makes, read from the JSON of the plan alone.

How far a row moves what is released follows from bounds in the plan, by the lemmas named here. That the rows which
owners bring obey these bounds is the work of their programs, and nothing that anybody could check afterwards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from service.trust.receipts import SEMI_HONEST
from verify.mechanisms import LaplaceVector, Shifts, SkellamVector

Release = SkellamVector | LaplaceVector

VIEWS = ("coordinator", "coalition")
"""The coordinator alone, for tables of which one has a record more; and with t parties, for one record replaced."""

_MEAN_UNIT = Fraction(1, 1 << 64)


class UnknownPlanError(ValueError):
    """This checker does not know how such a job adds noise; the text says what."""


def releases_of(plan: Mapping[str, Any]) -> dict[str, Release]:
    """Return the one release of a job, by view.

    Args:
        plan: JSON of the plan.

    Raises:
        UnknownPlanError: a job of another kind, or fields that a plan of this kind does not have.
    """
    analysis = plan["job"]["analysis"]
    if (read := _KINDS.get(analysis)) is None:
        raise UnknownPlanError(f"{analysis} is not among the analyses that this checker recomputes")
    if plan["job"].get("security", SEMI_HONEST) != SEMI_HONEST:
        raise UnknownPlanError("what the proofs of rows show besides, by its security mode, is not recomputed")
    try:
        parameters = {*plan["job"]["parameters"], *plan.get("params", ())}
        later = (set(plan["job"]) - _OF_JOBS, set(plan) - _OF_PLANS[read], parameters - _OF_PARAMETERS[read])
        if unknown := [name for names in later for name in sorted(names)]:
            raise UnknownPlanError(f"the plan has {unknown[0]!r}, and what that adds is not recomputed")
        return {view: read(plan, view) for view in VIEWS}
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, UnknownPlanError):
            raise
        raise UnknownPlanError(f"the plan is not one of {analysis} as this version knows it") from error


def compute_parties(job: Mapping[str, Any]) -> list[str]:
    """Return the names of the parties that hold shares."""
    return list(job["compute"] or [one["party"] for one in job["inputs"]])


def owners(job: Mapping[str, Any]) -> list[str]:
    """Return the names of the parties that bring columns."""
    return [one["party"] for one in job["inputs"]]


def members(job: Mapping[str, Any]) -> list[str]:
    """Return the names of all parties: those that compute, then owners that do not."""
    computing = compute_parties(job)
    return [*computing, *(name for name in owners(job) if name not in computing)]


def colluding(job: Mapping[str, Any]) -> int:
    """Return t, the number of colluding parties."""
    return int(job["colluding"] or (len(compute_parties(job)) - 1) // 2)


def _unknown(plan: Mapping[str, Any], view: str) -> tuple[int, int]:
    """Return the number of parties, and of those whose noise is unknown in a view."""
    n = len(compute_parties(plan["job"]))
    return n, n - (colluding(plan["job"]) if view == "coalition" else 0)


def _schemas_of_owners(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    of = {schema["party"]: schema for schema in plan["schemas"]}
    return [of[name] for name in owners(plan["job"])]


def _rows_of_unit(plan: Mapping[str, Any]) -> int:
    """Return k, how many rows of one protected unit count: group privacy multiplies norms by it."""
    if plan["job"]["parameters"].get("unit") != "person":
        return 1
    (most,) = {int(schema["most_rows_per_person"]) for schema in _schemas_of_owners(plan)}
    return most


_CONSTANTS = {"logistic-regression": 2}
"""How many entries of a row are as large as the constant and in no owner's bound; 1 where not named."""


def _gram(plan: Mapping[str, Any], view: str) -> SkellamVector:
    """Return the release of the upper triangle of X^T X, Sk(mu) on the diagonal and Sk(mu / 2) off it.

    With |x|^2 <= B, s = min(n, B) entries of x at most are not 0. A row added moves the four sums of `SkellamVector`
    by at most B^2, (2 - 1/s) B^2, s B, (2 s - 1) B (times 1/mu, 1/mu^2); a row replaced by 2 B^2, 4 B^2,
    z = min(2 s B, isqrt(2 n^2 B^2)) and min(2 z, 2 (2 s - 1) B). It moves s (s + 1) / 2 entries, replaced twice as
    many. A label of logistic regression lies in a row as the constant does, beside the bounds of the features.
    """
    if "party_mu" not in plan or plan["params"].get("method", "mpc") not in ("mpc", "moments"):
        raise UnknownPlanError("noise of another kind than on a matrix counted under shares is not recomputed")
    constant = int(plan["constant"])
    n = sum(len(schema["columns"]) for schema in _schemas_of_owners(plan)) + (constant > 0)
    bound = sum(map(int, plan["squared_norm_bounds"])) + _CONSTANTS.get(plan["job"]["analysis"], 1) * constant**2
    s, mu = min(n, bound), Fraction(int(plan["party_mu"]) * _unknown(plan, view)[1])
    squares, sizes, moved = Fraction(bound**2), s * bound, s * (s + 1) // 2
    squares_second, sizes_second = (2 - Fraction(1, s)) * bound**2, (2 * s - 1) * bound
    if view == "coalition" and n > 1:
        squares, squares_second = 2 * squares, Fraction(4 * bound**2)
        sizes = min(2 * sizes, math.isqrt(2 * (n * bound) ** 2))
        sizes_second = min(2 * sizes, 2 * sizes_second)
        moved = min(2 * moved, n * (n + 1) // 2)
    k = _rows_of_unit(plan)
    return SkellamVector(
        k**2 * squares / mu,
        k**2 * squares_second / mu**2,
        k * sizes / mu,
        k * sizes_second / mu**2,
        min(k * moved, n * (n + 1) // 2),
        mu / 2,
    )


def _joint_sum(plan: Mapping[str, Any], view: str) -> Release:
    """Return the release of sums of (c, x): a row added moves them by (c, x), one replaced by (0, x - x') or by (c, x).

    An owner's block of n_q integers has a squared norm of at most B_q, so its 1-norm is at most isqrt(n_q B_q).
    """
    if (
        plan["params"].get("bins") is not None
    ):  # one bin changes its pattern, or two do: which cannot be the same change
        moved = (6, 4) if view == "coalition" else (2, 2)
        return _shared_noise(plan, view, *moved, length=1 << len(_schemas_of_owners(plan)))
    bounds, constant = [int(one) for one in plan["squared_norm_bounds"]], int(plan["constant"])
    widths = [len(schema["columns"]) for schema in _schemas_of_owners(plan)] if bounds else []
    squares = sum(bounds)
    sizes = sum(math.isqrt(n * bound) for n, bound in zip(widths, bounds, strict=True))
    squared_l2, l1 = constant**2 + squares, constant + sizes
    if view == "coalition":
        squared_l2, l1 = max(squared_l2, 4 * squares), max(l1, 2 * sizes)
    return _shared_noise(plan, view, squared_l2, l1, length=1 + sum(widths))


def _pattern_count(plan: Mapping[str, Any], view: str) -> Release:
    """Return the release of counts: a record is in one cell, so one count moves by 1, for one replaced two."""
    if plan["params"]["method"] != "mpc":
        raise UnknownPlanError("reports by randomized response are not recomputed")
    moved = 2 if view == "coalition" else 1
    return _shared_noise(plan, view, moved, moved, length=2)


def _shared_noise(plan: Mapping[str, Any], view: str, squared_l2: int, l1: int, *, length: int) -> Release:
    """Return integers plus noise of one kind on each, for k rows: the norm is k times as large, its square k^2 times.

    Args:
        plan: JSON of the plan.
        view: whose.
        squared_l2: bound of the squared Euclidean norm of the difference that one row makes.
        l1: bound of its 1-norm; an integer is at most its square.
        length: how many integers there are, or more.
    """
    k, (n_parties, n_unknown) = _rows_of_unit(plan), _unknown(plan, view)
    l1 = min(l1, squared_l2)
    shifts = None
    if k == 1 and length == 1:
        shifts = Shifts(min(l1, math.isqrt(squared_l2)), 1)
    elif k == 1 and squared_l2 <= 3:  # one that moves by 2 would add 4
        shifts = Shifts(1, min(squared_l2, l1, length))
    if int(plan["mean_units"]):
        shape = Fraction(n_unknown, n_parties - colluding(plan["job"]))
        return LaplaceVector(k * l1, shape, int(plan["mean_units"]) * _MEAN_UNIT, shifts)
    mu = Fraction(int(plan["party_mu"]) * n_unknown)
    squares = k**2 * Fraction(squared_l2)
    moved = min(k * min(squared_l2, l1), length) if length > 2 else k * min(squared_l2, l1)
    return SkellamVector(squares / mu, squares / mu**2, k * l1 / mu, k * l1 / mu**2, moved, mu, shifts)


_READERS: Sequence[tuple[Callable[[Mapping[str, Any], str], Release], tuple[str, ...]]] = (
    (_gram, ("pca", "second-moments", "low-rank", "least-squares", "logistic-regression")),
    (_joint_sum, ("joint-count", "joint-sum", "joint-mean")),
    (_pattern_count, ("pattern-count", "cross-table")),
)
_OF_JOBS = {
    "analysis", "anyway", "colluding", "compute", "deadline_s", "inputs", "matching", "order", "parameters", "privacy",
    "security", "title",
}  # fmt: skip
_OF_ALL = {"job", "n_primes", "params", "schemas", "party_mu"}
_OF_PLANS: Mapping[Callable[[Mapping[str, Any], str], Release], set[str]] = {
    _gram: _OF_ALL | {"constant", "row_norm", "squared_norm_bounds"},
    _joint_sum: _OF_ALL | {"constant", "mean_units", "squared_norm_bounds", "units"},
    _pattern_count: _OF_ALL | {"bias_units", "mean_units"},
}
_OF_PARAMETERS: Mapping[Callable[[Mapping[str, Any], str], Release], set[str]] = {
    _gram: {
        "center", "components", "gamma", "intercept", "iterations", "label", "learning_rate", "max_rows", "method",
        "most_participations", "norm_bounds", "optimiser", "order", "origin", "rank", "release", "ridge", "row_norm",
        "sampling_rate", "scale", "sketch_entries", "sketch_rows", "unit", "weight_gamma", "weight_norm",
    },
    _joint_sum: {"bins", "max_rows", "unit"},
    _pattern_count: {"counted", "max_rows", "method", "share", "unit"},
}  # fmt: skip
"""Fields of jobs, plans and parameters that this checker knows. One of a later version could mean a further release."""

_KINDS = {name: read for read, names in _READERS for name in names}

RECOMPUTED = tuple(_KINDS)
"""Names of the analyses whose noise is recomputed, by the methods that count under shares."""
