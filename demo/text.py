"""What the demos of analyses say alike: what it costs in privacy, time and bytes, and what to try next."""

from collections.abc import Mapping
from typing import Any

from cli.terminal.output import this_command
from dp.cost.report import ceil_to_digits

MIN_MEGABYTES = 0.1
"""What is less is said in kilobytes."""


def epsilon_against(privacy: Mapping[str, Any], view: str, digits: int = 3) -> str:
    """Return the epsilon of a view, rounded up to some significant digits."""
    return ceil_to_digits(privacy["views"][view]["epsilon"], digits)


def privacy_lines(privacy: Mapping[str, Any], alone: str = "", together: str = ", pooling what they see") -> str:
    """Return the block of lines on privacy.

    Args:
        privacy: the report of the job. A coalition's epsilon of None: there is no protection against it.
        alone: more to say of the coordinator.
        together: more to say of the coalition.
    """
    protected = privacy["views"]["coalition"]["epsilon"] is not None
    against = f"epsilon {epsilon_against(privacy, 'coalition')}" if protected else "no protection"
    colluding = privacy["colluding"]
    parties = "1 party" if colluding == 1 else f"{colluding} parties"
    return f"""  privacy of each row, delta {privacy["delta"]:g}
    {f"epsilon {epsilon_against(privacy, 'coordinator')}":15} against the coordinator alone{alone}
    {against:15} against the coordinator and {parties}{together}"""


def job_line(seconds: float, bytes_sent: Mapping[str, int]) -> str:
    """Return the line on time and bytes."""
    sent = ", ".join(
        f"{party} {n / 1e6:.1f} MB" if n >= MIN_MEGABYTES * 1e6 else f"{party} {n / 1e3:.0f} kB"
        for party, n in bytes_sent.items()
    )
    return f"  job       {seconds:.1f} s; sent: {sent}"


def next_line(arguments: str, question: str) -> str:
    """Return the line with the command to try next, as the user called us."""
    return f"  next      {this_command()} demo {arguments}     {question}"
