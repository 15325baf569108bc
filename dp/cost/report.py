"""The privacy report of a job: what was released, what it costs whom, as JSON data and as lines for people."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dp.cost.composition import composed_epsilon
from dp.cost.events.event import PrivacyEvent
from dp.cost.views import ADJACENCY, UNIT, VIEWS, View


def privacy_report(
    *,
    mechanism: str,
    sensitivity: str,
    n_parties: int,
    colluding: int,
    delta: float,
    events: Mapping[View, Sequence[PrivacyEvent]],
    noise: Mapping[View, str],
    parameters: Mapping[str, Any],
    unit: str = UNIT,
) -> dict[str, Any]:
    """Return the privacy cost of a job in each view, as plain JSON data. Public.

    Args:
        mechanism: what is released, in words.
        sensitivity: what one unit can change at most, in words.
        n_parties: N.
        colluding: t.
        delta: delta for which the epsilons are stated.
        events: per view all releases of the job.
        noise: per view what of the noise is unknown there, in words.
        parameters: parameters of the mechanism, and others that the analysis states.
        unit: what the events protect.

    Raises:
        CalibrationError: delta is out of range.
    """
    views = {}
    for view in VIEWS:
        bound = composed_epsilon(events[view], delta)
        views[view] = {
            "adjacency": ADJACENCY[view].value,
            "epsilon": bound.epsilon,
            "accounting": "privacy loss distribution" if bound.order is None else "renyi",
            "order": bound.order,
            "order_at_edge": bound.order_at_edge,
            "noise": noise[view],
        }
    return {
        "mechanism": mechanism,
        "sensitivity": sensitivity,
        "unit": unit,
        "n_parties": n_parties,
        "colluding": colluding,
        "delta": delta,
        "parameters": dict(parameters),
        "views": views,
    }


def no_guarantee_report(*, mechanism: str, n_parties: int, colluding: int) -> dict[str, Any]:
    """Return the report of a job whose answer is exact, as plain JSON data: it promises nobody anything. Public.

    Args:
        mechanism: what is released, in words.
        n_parties: N.
        colluding: t.
    """
    return {
        "mechanism": mechanism,
        "guarantee": "none",
        "n_parties": n_parties,
        "colluding": colluding,
        "delta": None,
        "views": {},
    }


def describe(report: Mapping[str, Any], participants: str = "parties") -> list[str]:
    """Return the lines in which a person reads the privacy report of any analysis.

    Args:
        report: report made here. A job that matches rows has `matching` besides: `kind`, and `reveals` in words, which
            no view covers. One that holds against members that deviate has `security`, "malicious". One of local
            responses may have a third view, `analyst` (`dp.cost.shuffle`): `whom` and `never` say whom it is about,
            `epsilon` and `responses` what it promises. No ledger is charged by it. One of a batch that opens without
            some of its parties has `opening`: who opens, and who may collude.
        participants: what those are called who take part.
    """
    matching = report.get("matching")
    matched = [] if matching is None else [f"Rows are matched ({matching['kind']}): {matching['reveals']}."]
    opening = [f"{report['opening']}."] if "opening" in report else []
    if not report["views"]:
        return [
            *matched,
            f"Released: {report['mechanism']}.",
            (
                "NO PRIVACY GUARANTEE: the answer is exact. Whoever knows all that goes into it but one thing knows "
                "that one, and the answers to two questions may differ by one person."
            ),
            *opening,
        ]
    who = {
        "coordinator": "the coordinator alone",
        "coalition": f"the coordinator and {report['colluding']} of {report['n_parties']} {participants} together",
    }
    proven = report.get("security") == "malicious"
    deviating = "Security: malicious. Owners prove that their rows keep their bounds; epsilon counts what that shows."
    lines = [
        *matched,
        *([deviating] if proven else []),
        f"Released: {report['mechanism']}.",
        f"Sensitivity: {report['sensitivity']}.",
        f"Protected: one {report['unit']}. delta = {report['delta']:g}.",
        *opening,
    ]
    for view, cost in report["views"].items():
        if cost["epsilon"] is None:
            lines.append(f"Against {who[view]}: NO PRIVACY GUARANTEE; {cost['noise']}.")
            continue
        edge = " at the edge of the grid" if cost["order_at_edge"] else ""
        found = f"Renyi order {cost['order']}{edge}" if cost["order"] else "by its privacy loss distribution"
        lines.append(
            f"Against {who[view]}: epsilon = {ceil_to_digits(cost['epsilon'])} ({cost['adjacency']}), "
            f"{found}; {cost['noise']}."
        )
    if third := report.get("analyst"):
        lines.append(
            f"Against {third['whom']}: epsilon = {ceil_to_digits(third['epsilon'])}, counting {third['responses']} "
            f"responses of others; {third['never']}."
        )
    return lines


def ceil_to_digits(value: float) -> str:
    """Round up to four significant digits: a printed epsilon must not be below the computed one."""
    if value == 0:
        return "0"
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 3)
    written = Fraction(repr(float(value)))  # 0.55 should stay 0.55, although its float is slightly larger
    return f"{float(math.ceil(written / unit) * unit):.4g}"
