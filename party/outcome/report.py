"""The party-local report of a job. It never leaves the party.

It holds exact counts of this party's own rows and clipped values. They help the owner to choose better bounds, and they
are not differentially private: whoever read two reports, one with a person's row and one without, would know of that
row. For the same reason no message, log line or error text carries them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analyses.job.plan import Plan
from analyses.job.schema import LocalReport
from dp.cost.report import describe
from ledger.accounts import label_of
from ledger.ledger import Ledger
from ledger.standing import standing_of
from service.files.private_report import keep_report


@dataclass(frozen=True)
class StageTraffic:
    """The bytes that this party sent and received in one stage."""

    sent_bytes: int
    received_bytes: int


def balance_of(ledger: Ledger, party: str, plan: Plan, accounts: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what remains of the budget of our table in a job; None where we only compute.

    Args:
        ledger: ours.
        party: our name.
        plan: plan of the job.
        accounts: table to what the ledger calls its budget.
    """
    table = next((i.table for i in plan.job.inputs if i.party == party), None)
    balance = None if table is None else ledger.balance(accounts[table])
    return None if balance is None else balance.as_dict()


def write_report(
    data_dir: Path,
    job_id: str,
    local: LocalReport,
    *,
    traffic: Mapping[str, StageTraffic],
    privacy: Mapping[str, Any],
    budget: Mapping[str, Any] | None,
    elapsed_s: float,
) -> Path:
    """Write `data_dir/reports/<job_id>.json`, readable by its owner only; it is there completely or not at all.

    Args:
        data_dir: the party's own folder.
        job_id: id that the coordinator chose.
        local: exact counts of this party's table.
        traffic: stage to bytes.
        privacy: the public privacy report of the analysis, with the epsilon of both views.
        budget: how the budget of this party's table stands after the job; None where it only computes.
        elapsed_s: how long the job took here.

    Returns:
        The path of the report.

    Raises:
        ValueError: the job id does not fit a file name; the coordinator is at fault.
        OSError: it cannot be written.
    """
    report = {
        "job_id": job_id,
        "rows": local.n_rows,
        "clipped_rows": local.clipped_rows,
        "clipped_values": local.clipped_values,
        "mapped_values": local.mapped_values,
        "surplus_rows": local.surplus_rows,
        "gaps": local.gaps,
        "others": local.others,
        "filtered_rows": local.filtered,
        "left_out_rows": local.left_out,
        "merged_rows": local.merged,
        "traffic": {stage: asdict(moved) for stage, moved in traffic.items()},
        "privacy": dict(privacy),
        "budget": None if budget is None else dict(budget),
        "elapsed_s": elapsed_s,
    }
    if local.n_matched is not None:
        report["matched_rows"] = local.n_matched
    if local.failures:
        report["failures"] = local.failures
    if local.kept:
        report["kept"] = local.kept
    return keep_report(data_dir, job_id, report)


def describe_report(report: Mapping[str, Any]) -> list[str]:
    """Return a report as lines for the owner: the guarantee, clipped values, spending, and the remaining budget."""
    mapped = report.get("mapped_values", {})  # reports of earlier versions have none
    surplus, gaps, others = report.get("surplus_rows", 0), report.get("gaps", {}), report.get("others", {})
    failures = report.get("failures", {})
    left_out, merged, matched = report.get("left_out_rows"), report.get("merged_rows"), report.get("matched_rows")
    lines = [
        f"job {report['job_id']}: {report['rows']} rows, {report['elapsed_s']:.1f} s",
        f"clipped: {report['clipped_rows']} rows by the norm bound; values outside their bounds: "
        + _counted(report["clipped_values"]),
        *(["mapped by the analysis's public rule: " + _counted(mapped)] if mapped else []),
        *([f"gaps, which became what the table's section declares: {_counted(gaps)}"] if gaps else []),
        *([f"values not of the declared kind, likewise: {_counted(others)}"] if others else []),
        *([f"rows that the job's filter left out: {report['filtered_rows']}"] if report.get("filtered_rows") else []),
        *([f"rows without an id, which took no part: {left_out}"] if left_out else []),
        *([f"rows that became one with an earlier row of the same id: {merged}"] if merged else []),
        *([f"rows that all owners have, and that were used: {matched}"] if matched is not None else []),
        *([f"surplus rows of persons, which did not count: {surplus}"] if surplus else []),
        *([f"errors in computing of own values, for which zeros stood: {_counted(failures)}"] if failures else []),
        *([told] if (told := report.get("kept", {}).get("told")) else []),
        *describe(report["privacy"]),
    ]
    budget = report["budget"]
    if budget is not None:
        lines.append(
            f"Budget of {label_of(budget['dataset'])}, period {budget['period']!r}: epsilon {budget['epsilon']:g} at "
            f"delta {budget['delta']:g}, {standing_of(budget)}."
        )
    return lines


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in counts.items() if count) or "none"
