"""Measures the power of every audit target and writes the table of `docs/audit.md`.

python -m bench.privacy.audit                      all targets, then the table
python -m bench.privacy.audit --only gram-coalition logistic-coordinator
python -m bench.privacy.audit --render             the table anew from what is kept
python -m bench.privacy.audit --repeats 25 --add   so many more, where a target has not changed

Each target is audited several times with its claimed noise and with four fifths of it. So that many repetitions fit
into the time, these audits have as many runs as the computed power of 0.999 needs, no more; `moiety audit` takes more,
so that its privacy test has power too. What was measured is printed as JSON and kept in `bench/results/audit.json`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from audit import TARGETS, Entry
from bench.machine import describe_machine
from dp.audit.exact_audit import LESS, audit_exactly
from entropy import SystemEntropy

RESULTS = Path(__file__).parents[1] / "results" / "audit.json"
PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
BEGIN, END = "<!-- the table of `make bench-audit` begins -->", "<!-- the table of `make bench-audit` ends -->"

AT_ONCE = 5
"""Audits of each kind before the next target has its turn, so that all are measured as often if it ends early."""

REPEATED_POWER = 0.999


def measure(entry: Entry, repeats: int) -> dict[str, Any]:
    """Return what a target claims, what was computed, and what so many audits came to."""
    full, few, target = entry.design(), entry.design(power=REPEATED_POWER, least_power=0.0), entry.make()
    entropy, alarms, caught, caught_by_privacy, times = SystemEntropy(), 0, 0, 0, []
    for _ in range(repeats):
        begin_s = time.process_time()
        alarms += audit_exactly(target, few, entropy).is_beaten
        times.append(time.process_time() - begin_s)
        found = audit_exactly(target.with_noise(LESS), few, entropy)
        caught += found.is_beaten
        caught_by_privacy += found.breaks_privacy
    return {
        "epsilon": full.privacy.epsilon,
        "delta": full.privacy.delta,
        "false_alarm": full.false_alarm,
        "runs": full.n_runs,
        "processor_seconds": min(times) / few.n_runs * full.n_runs,
        "privacy_power": full.privacy.power,
        "noise_power": full.noise.power,
        "repeated_runs": few.n_runs,
        "repeated_power": few.power,
        "repeats": repeats,
        "caught": caught,
        "caught_by_privacy": caught_by_privacy,
        "alarms": alarms,
    }


def added(before: dict[str, Any] | None, measured: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement with the counts of an earlier one of the same design added."""
    if before is None or any(before[key] != measured[key] for key in ("runs", "repeated_runs", "delta")):
        return measured
    counts = {key: before[key] + measured[key] for key in ("repeats", "caught", "caught_by_privacy", "alarms")}
    least = min(before["processor_seconds"], measured["processor_seconds"])
    return measured | counts | {"processor_seconds": least}


def table(kept: dict[str, Any]) -> str:
    """Return the table of the page."""
    columns = ("target", "epsilon", "delta", "runs", "seconds", "power of the privacy test", "power of the noise test")
    heads = (*columns, "caught at 0.8", "false alarms")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, row in kept["targets"].items():
        lines.append(
            f"| `{name}` | {row['epsilon']:.1f} | {row['delta']:.4f} | {row['runs']} | {row['processor_seconds']:.1f} "
            f"| {_probability(row['privacy_power'])} | {_probability(row['noise_power'])} "
            f"| {row['caught']} of {row['repeats']} | {row['alarms']} of {row['repeats']} |"
        )
    rows = kept["targets"].values()
    n_repeats, caught, alarms = (sum(row[key] for row in rows) for key in ("repeats", "caught", "alarms"))
    machine = kept["machine"]
    summary = (
        f"All together: {caught} of {n_repeats} audits of four fifths of the noise caught it, {alarms} of {n_repeats} "
        f"audits of the claimed noise were false alarms. Last measured {kept['date']} on {machine['cpu']}, "
        f"{machine['cores']} cores, Python {machine['python']}, NumPy {machine['numpy']}."
    )
    return "\n".join([*lines, "", summary])


def render(kept: dict[str, Any]) -> None:
    """Write the table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{table(kept)}\n\n{END}{tail}", encoding="utf-8")


def _probability(p: float) -> str:
    return f"1 - {1 - p:.0e}" if 0.999 < p < 1 and 1 - p > 1e-15 else f"{p:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(TARGETS), help="these targets; others keep their numbers")
    parser.add_argument("--repeats", type=int, default=25, help="audits of each kind per target, a multiple of five")
    parser.add_argument("--add", action="store_true", help="to what is kept, where the target is the same")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    options = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"targets": {}}
    for n_done in range(0, 0 if options.render else options.repeats, AT_ONCE):
        for name in options.only or TARGETS:
            measured = measure(TARGETS[name], AT_ONCE)
            before = kept["targets"].get(name) if n_done or options.add else None
            kept["targets"][name] = added(before, measured)
            kept["targets"] = {each: kept["targets"][each] for each in TARGETS if each in kept["targets"]}
            kept |= {"date": time.strftime("%Y-%m-%d"), "machine": describe_machine()}
            print(json.dumps({name: kept["targets"][name]}), flush=True)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    render(kept)


if __name__ == "__main__":
    main()
