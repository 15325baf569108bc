"""`moiety audit`: runs mechanisms many times on two neighbouring inputs and tries to refute what they claim."""

import math
import time
from fractions import Fraction
from typing import Annotated, Any

import typer

from audit import JOBS, PUBLISHED, TARGETS, Entry, JobEntry, Published
from cli.terminal.output import ExitCode, Format, fail, print_result, say
from dp.audit import audit as epsilon_audit
from dp.audit.exact_audit import FALSE_ALARM, LESS, ExactFinding, audit_exactly
from entropy import SystemEntropy

SURE = 0.99
"""Power from which on a job with less noise must be caught."""

_NAMES = (*TARGETS, *JOBS, *PUBLISHED)


def audit(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_NAMES)}; or all.", show_default=False)],
    noise: Annotated[
        float,
        typer.Option(min=0.1, max=1.0, help="Part of the claimed noise that is drawn; below 1 it must be caught."),
    ] = 1.0,
    n_runs: Annotated[
        int | None,
        typer.Option("--runs", min=100, help="Runs on each of the two inputs; default: by the power needed."),
    ] = None,
    false_alarm: Annotated[
        float, typer.Option(min=1e-15, max=0.5, help="Probability of calling a true claim false, per mechanism.")
    ] = FALSE_ALARM,
    output: Annotated[Format, typer.Option("--format", help="How the findings are printed.")] = Format.TEXT,
) -> None:
    """Try to show that the privacy claim of a mechanism is false.

    For each mechanism two neighbouring inputs and the exact law of its output are known. Noise is drawn by the
    functions that jobs call. Two things are tested: that the two inputs cannot be told apart better than claimed, and
    that the noise is not more concentrated than claimed. A mechanism that withstands is not proven to be private; one
    that is beaten is proven not to keep its claim, but for the probability of a false alarm.

    The names that begin with job- are whole jobs, planned for an epsilon and run by the parties' own code on
    neighbouring tables that a search has found to be far apart. Their promise is tested against that epsilon itself.

    With --noise 0.8 the same mechanisms draw 20 % too little noise, which must be caught. The names that begin with
    faulty- are published mechanisms with a known fault, which must be caught too.

    Ends with 0 where everything is as expected, with 1 where a mechanism was beaten that must not be or not caught that
    must be, and with 2 for a name that does not exist.
    """
    if name not in ("all", *_NAMES):
        fail(f"there is nothing called {name!r} to audit; there are {', '.join(_NAMES)}, and all", ExitCode.USAGE)
    if name in PUBLISHED and noise != 1:
        fail(f"{name} has a fault of its own; --noise is for the other mechanisms", ExitCode.USAGE)
    factor, found = Fraction(noise).limit_denominator(1000), []
    for each, entry in TARGETS.items():
        if name in ("all", each):
            found.append(_audit_exactly(each, entry, factor, n_runs, false_alarm))
    for each, job in JOBS.items():
        if name in ("all", each):
            found.append(_audit_job(each, job, factor, n_runs, false_alarm))
    for each, published in PUBLISHED.items():
        if name == each or (name == "all" and factor == 1):
            found.append(_audit_published(each, published, n_runs, false_alarm))
    print_result(output, found, (_as_text(one) for one in found))
    if not all(one["as_expected"] for one in found):
        raise typer.Exit(ExitCode.FAILED)


def _audit_exactly(name: str, entry: Entry, noise: Fraction, n_runs: int | None, false_alarm: float) -> dict[str, Any]:
    say(f"auditing {name}: {entry.summary}")
    start = time.monotonic()
    design = entry.design(n_runs=n_runs, false_alarm=false_alarm)
    finding = audit_exactly(entry.make().with_noise(noise), design, SystemEntropy())
    return _head(name, entry.summary, noise, finding.is_beaten) | _exact(finding) | _seconds(start)


def _audit_job(name: str, entry: JobEntry, noise: Fraction, n_runs: int | None, false_alarm: float) -> dict[str, Any]:
    say(f"auditing {name}: {entry.summary}")
    start = time.monotonic()
    finding = entry.audit(SystemEntropy(), noise=noise, n_runs=n_runs, false_alarm=false_alarm)
    promise, head = finding.promise, _head(name, entry.summary, noise, finding.is_beaten)
    if noise != 1 and (finding.exact is None or finding.exact.design.power < SURE):
        head["as_expected"] = True  # what the promise leaves over; see docs/audit.md
    return (
        head
        | {
            "promise": {
                "epsilon": promise.epsilon,
                "delta": promise.delta,
                "delta_at_least": promise.delta_shown,
                "part_of_declared_sensitivity": promise.attained,
                "is_broken": promise.is_broken,
            },
            "adds_up": finding.adds_up,
        }
        | ({} if finding.exact is None else _exact(finding.exact))
        | _seconds(start)
    )


def _head(name: str, mechanism: str, noise: Fraction, is_beaten: bool) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "noise": float(noise),
        "is_sound": noise == 1,
        "is_beaten": is_beaten,
        "as_expected": is_beaten is (noise != 1),
    }


def _seconds(start: float) -> dict[str, float]:
    return {"seconds": round(time.monotonic() - start, 2)}


def _exact(finding: ExactFinding) -> dict[str, Any]:
    design = finding.design
    return {
        "runs": design.n_runs,
        "false_alarm": design.false_alarm,
        "power": design.power,
        "privacy": {
            "epsilon": design.privacy.epsilon,
            "claimed_delta": design.privacy.delta,
            "delta_at_least": finding.delta_at_least,
            "is_broken": finding.breaks_privacy,
            "likelier_input": design.privacy.likelier_world,
            "hits": list(finding.privacy_hits),
            "power": design.privacy.power,
        },
        "concentration": {
            "claimed_probability": design.noise.probability,
            "hits": finding.noise_hits,
            "hits_that_are_an_alarm": design.noise.least_hits,
            "is_broken": finding.lacks_noise,
            "power": design.noise.power,
        },
    }


def _audit_published(name: str, entry: Published, n_runs: int | None, false_alarm: float) -> dict[str, Any]:
    say(f"auditing {name}: {entry.summary}")
    start = time.monotonic()
    finding = epsilon_audit.audit(entry.make(), SystemEntropy(), n_runs=n_runs or entry.n_runs, false_alarm=false_alarm)
    shown = finding.epsilon_bound
    return {
        "name": name,
        "mechanism": entry.summary,
        "is_sound": False,
        "is_beaten": finding.is_beaten,
        "as_expected": finding.is_beaten,
        "runs": finding.n_runs,
        "false_alarm": finding.false_alarm,
        "claimed_epsilon": finding.claim.epsilon,
        "delta": finding.claim.delta,
        "epsilon_at_least": shown if math.isfinite(shown) else None,
        "statistic": finding.statistic,
        "likelier_input": finding.likelier_world,
        "hits": list(finding.hits),
        "seconds": round(time.monotonic() - start, 2),
    }


def _as_text(one: dict[str, Any]) -> str:
    verdict = "BEATEN" if one["is_beaten"] else "withstands"
    expected = "as expected" if one["as_expected"] else "NOT AS EXPECTED"
    head = f"{one['name']}: {verdict}, {expected}."
    drawn = "" if one.get("noise", 1) == 1 else f" Drawn with {one['noise']:g} of the noise."
    if "promise" in one:
        promise, added = (
            one["promise"],
            {True: "In whole runs all noise is in what is opened. ", False: "NOISE IS LOST. "},
        )
        text = (
            f"{head}{drawn}\n"
            f"  Promise: at epsilon {promise['epsilon']:g} delta is to be {promise['delta']:g}; for the worst tables "
            f"found it is at least {promise['delta_at_least']:.3g}. They take up "
            f"{100 * promise['part_of_declared_sensitivity']:.1f} % of what is declared. "
            f"{added.get(one['adds_up'], '')}{_judged(promise)}"
        )
        return text + ("\n" + _tests_as_text(one) if "privacy" in one else "")
    if "privacy" not in one:
        shown = "nothing" if one["epsilon_at_least"] is None else f"at least {one['epsilon_at_least']:.3f}"
        return (
            f"{head}\n  Epsilon at delta {one['delta']:g}: claimed {one['claimed_epsilon']:.3f}, shown {shown} "
            f"({one['statistic']}: {one['hits'][0]} and {one['hits'][1]} of {one['runs']} runs)."
        )
    return f"{head}{drawn}\n{_tests_as_text(one)}"


def _tests_as_text(one: dict[str, Any]) -> str:
    privacy, noise, n = one["privacy"], one["concentration"], one["runs"]
    return (
        f"  Privacy: at epsilon {privacy['epsilon']:.1f} delta is claimed to be {privacy['claimed_delta']:.4f}; it is "
        f"at least {privacy['delta_at_least']:.4f}. {_judged(privacy)}\n"
        f"  Noise: a concentrated output is claimed in {100 * noise['claimed_probability']:.2f} % of runs; it came up "
        f"in {100 * noise['hits'] / n:.2f} %, {100 * noise['hits_that_are_an_alarm'] / n:.2f} % would be an alarm. "
        f"{_judged(noise)}\n"
        f"  {n} runs of each input; false alarm {one['false_alarm']:g}; {float(LESS):g} of the noise is caught with "
        f"probability {one['power']:.6f}."
    )


def _judged(test: dict[str, Any]) -> str:
    return "FALSE." if test["is_broken"] else "Not refuted."
