"""The privacy that a result claims, recomputed from its plan."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from service.trust.receipts import SEMI_HONEST
from verify.document import Document
from verify.findings import Finding, fails, on_trust, verified
from verify.plans import VIEWS, UnknownPlanError, colluding, compute_parties, releases_of

TOLERANCE = Fraction(1, 1000)
"""Part of an epsilon by which the bound proven here may exceed the one that a result claims."""

_WHO = {"coordinator": "the coordinator alone", "coalition": "the coordinator with the colluding parties"}


def findings_of_privacy(document: Document) -> list[Finding]:
    """Return what the plan proves about the epsilons that a result claims, in both views.

    Args:
        document: result with its plan.
    """
    target, claimed = document.plan["job"]["privacy"], document.result.get("privacy")
    if not isinstance(claimed, Mapping) or not isinstance(claimed.get("views"), Mapping):
        return [fails("the result states no privacy")]
    views = claimed["views"]
    if target is None:
        if views:
            return [fails("the answer is exact, and the result claims privacy")]
        return [verified("the answer is exact, as its plan says: it has NO privacy guarantee")]
    if not all(isinstance(target.get(name), int | float) for name in ("epsilon", "delta")):
        return [fails("the job of the plan asks for no epsilon and delta that are numbers")]
    job = document.plan["job"]
    found = [*_against_target(target, claimed, views), *_against_plan(_stated(claimed), _stated(job))]
    try:
        releases = releases_of(document.plan)
    except UnknownPlanError as error:
        return [*found, on_trust(f"the epsilons that the result claims: {error}")]
    found += _against_plan(_counted(claimed), _counted_of(job))
    for view in VIEWS:
        epsilon = _number(views.get(view), "epsilon")
        if epsilon is None:
            found.append(fails(f"the result claims no epsilon against {_WHO[view]}"))
            continue
        delta, most = Fraction(target["delta"]), epsilon * (1 + TOLERANCE)
        text = f"epsilon {float(epsilon):.6g} at delta {float(delta):g} against {_WHO[view]}"
        if releases[view].delta(most) <= Fraction(delta):
            found.append(verified(f"{text}: the noise of the plan gives it, recomputed"))
        else:
            found.append(fails(f"{text}: the noise of the plan does not give it"))
    return found


def _against_target(target: Mapping[str, Any], claimed: Mapping[str, Any], views: Mapping[str, Any]) -> list[Finding]:
    """Return whether a result claims what its job asks for."""
    found = []
    if claimed.get("delta") != target["delta"]:
        found.append(fails("the result states its epsilons for another delta than its job"))
    asked = Fraction(target["epsilon"])
    for view in VIEWS if target["view"] == "coalition" else ("coordinator",):
        epsilon = _number(views.get(view), "epsilon")
        if epsilon is not None and epsilon > asked * (1 + TOLERANCE):
            found.append(fails(f"the job asks for epsilon {float(asked):g}, and the result claims {float(epsilon):g}"))
    return found


def _against_plan(claimed: Mapping[str, Any], of_plan: Mapping[str, Any]) -> list[Finding]:
    """Return in what a result claims another thing than its plan, which the parties have computed themselves."""
    return [
        fails(f"the result claims another {what} than its plan")
        for what, value in of_plan.items()
        if claimed[what] != value
    ]


def _stated(of: Mapping[str, Any]) -> dict[str, Any]:
    """Return what job and report state under the same names."""
    matching = of.get("matching")
    kind = matching.get("kind") if isinstance(matching, Mapping) else None
    return {"security mode": of.get("security", SEMI_HONEST), "matching of rows": kind}


def _counted(claimed: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "number of parties": claimed.get("n_parties"),
        "number of colluding parties": claimed.get("colluding"),
        "protected unit": claimed.get("unit") == "person",
    }


def _counted_of(job: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "number of parties": len(compute_parties(job)),
        "number of colluding parties": colluding(job),
        "protected unit": job["parameters"].get("unit") == "person",
    }


def _number(of: Any, name: str) -> Fraction | None:
    """Return a positive finite number of JSON data; None where there is none."""
    value = of.get(name) if isinstance(of, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return Fraction(value)
