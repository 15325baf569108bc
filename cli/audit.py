"""`moiety audit`: runs a mechanism many times on two neighbouring inputs and tries to beat its claimed epsilon."""

import math
import time
from typing import Annotated, Any

import typer

from cli.audit_targets import TARGETS, Entry
from cli.output import ExitCode, Format, fail, print_json, print_text, say
from dp.audit import FALSE_ALARM, Finding
from dp.audit import audit as try_to_beat
from entropy import SystemEntropy


def audit(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(TARGETS)}; or all.")],
    n_runs: Annotated[int | None, typer.Option("--runs", min=1000, help="Runs on each of the two inputs.")] = None,
    false_alarm: Annotated[
        float, typer.Option(min=1e-15, max=0.5, help="Probability of calling a true claim beaten.")
    ] = FALSE_ALARM,
    output: Annotated[Format, typer.Option("--format", help="How the findings are printed.")] = Format.TEXT,
) -> None:
    """Try to beat the privacy claim of a mechanism.

    The names that begin with faulty- are mechanisms with a known fault, which the audit must catch. A sound mechanism
    that withstands is not proven to be private; one that is beaten is proven not to be.

    Ends with 1 where a sound mechanism was beaten or a faulty one not caught.
    """
    if name != "all" and name not in TARGETS:
        fail(f"there is nothing called {name!r} to audit; there are {', '.join(TARGETS)}, and all", ExitCode.USAGE)
    found = []
    for each in TARGETS if name == "all" else (name,):
        entry = TARGETS[each]
        say(f"auditing {each}: {entry.summary}")
        start = time.monotonic()
        finding = try_to_beat(entry.make(), SystemEntropy(), n_runs=n_runs or entry.n_runs, false_alarm=false_alarm)
        found.append(_as_json(each, entry, finding, time.monotonic() - start))
    if output is Format.JSON:
        print_json(found)
    else:
        print_text("\n".join(_as_text(one) for one in found))
    if not all(one["as_expected"] for one in found):
        raise typer.Exit(ExitCode.FAILED)


def _as_json(name: str, entry: Entry, finding: Finding, seconds: float) -> dict[str, Any]:
    shown = finding.epsilon_bound
    return {
        "name": name,
        "mechanism": entry.summary,
        "is_sound": entry.is_sound,
        "claimed_epsilon": finding.claim.epsilon,
        "delta": finding.claim.delta,
        "epsilon_at_least": shown if math.isfinite(shown) else None,
        "is_beaten": finding.is_beaten,
        "as_expected": finding.is_beaten is not entry.is_sound,
        "statistic": finding.statistic,
        "likelier_input": finding.likelier_world,
        "hits": list(finding.hits),
        "runs": finding.n_runs,
        "false_alarm": finding.false_alarm,
        "seconds": round(seconds, 2),
    }


def _as_text(one: dict[str, Any]) -> str:
    shown = "nothing" if one["epsilon_at_least"] is None else f"at least {one['epsilon_at_least']:.3f}"
    verdict = "BEATEN" if one["is_beaten"] else "withstands"
    expected = "as expected" if one["as_expected"] else "NOT AS EXPECTED"
    return (
        f"{one['name']}: {verdict}, {expected}. "
        f"Claimed epsilon {one['claimed_epsilon']:.3f} at delta {one['delta']:g}; "
        f"shown {shown} ({one['statistic']}: {one['hits'][0]} and {one['hits'][1]} of {one['runs']} runs; "
        f"false alarm {one['false_alarm']:g})."
    )
