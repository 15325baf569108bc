"""What the demo of any analysis prints: its result, what that is worth, what it cost, and what to try next."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cli.terminal.output import this_command
from demo.catalogue import Demo

if TYPE_CHECKING:
    from demo.comparison import Score
    from demo.job import Outcome

MIN_MEGABYTES = 0.1
"""What is less is said in kilobytes."""


def text_of(outcome: "Outcome", demo: Demo, given: Mapping[str, Any]) -> str:
    """Return what a demo prints.

    Args:
        outcome: what it shows.
        demo: which.
        given: its options to their values.
    """
    files = "".join(f"\n  {name:9} {path}" for name, path in outcome.files.items())
    clipped = ", ".join(f"{party} {n:,}" for party, n in outcome.clipped.items())
    result = "\n".join(f"  {line}".rstrip() for line in outcome.lines)
    return f"""
{outcome.title}: {outcome.n_rows:,} rows

{result}

{score_lines(outcome.scores)}

{job_line(outcome.seconds, outcome.bytes_sent)}
  clipped   rows and values beyond their public bounds, known to their owners alone: {clipped}{files}
{next_line(demo, given)}
"""


def score_lines(scores: "Iterable[Score]") -> str:
    """Return a table of scores."""
    rows = [("", "Moiety", "no privacy: all tables in one place")]
    rows += [(one.what, _number(one.moiety), _number(one.no_privacy)) for one in scores]
    widest = max(len(what) for what, _, _ in rows)
    return "\n".join(f"  {what:{widest}}  {moiety:>12}  {exact:>12}" for what, moiety, exact in rows)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.5g}" if abs(value) < 1e5 else f"{value:,.0f}"


def job_line(seconds: float, bytes_sent: Mapping[str, int]) -> str:
    """Return the line on time and bytes."""
    sent = ", ".join(
        f"{party} {n / 1e6:.1f} MB" if n >= MIN_MEGABYTES * 1e6 else f"{party} {n / 1e3:.0f} kB"
        for party, n in bytes_sent.items()
    )
    return f"  job       {seconds:.1f} s; sent: {sent}"


def next_line(demo: Demo, given: Mapping[str, Any]) -> str:
    """Return the line with the command to try next; the plain demo where this was that command or a more private one.

    After another method than the first one it is the plain demo too: what that method costs is what there is to see.

    Args:
        demo: which was run.
        given: its options to their values.
    """
    option, value, question = demo.next
    had, first = given.get(option), next(iter(demo.methods), None)
    if given.get("method") not in (None, first):
        return (
            f"  next      {this_command()} demo {demo.name}     by {first}, with its defaults: how much closer is it?"
        )
    if had is not None and (had <= value if isinstance(value, float) else had == value):
        return f"  next      {this_command()} demo {demo.name}     with its defaults"
    return f"  next      {this_command()} demo {demo.name} --{option} {value}     {question}"
