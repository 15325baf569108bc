"""The private report of a masked sum or a survey on the device's own record. It never leaves the device.

As a party's own report (`party.outcome.report`) it is not differentially private, so no message, log line or error text
carries what it says.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analyses.matrix_factorization.devices.record import UsedRatings
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.sums.records import Contribution
from analyses.sums.secure_sum import SumParams, privacy_report
from dp.cost.report import describe
from ledger.standing import standing_of
from mpc.secagg.config import RoundConfig
from mpc.secagg.vector.encoding import EncodedVector
from mpc.transcript import RoundId
from questions.responses import AskedQuestion, Input
from questions.shares import AskedBatch
from service.files.private_report import keep_report, report_path
from service.settings import SettingsError


def write_sum_report(
    data_dir: Path,
    params: SumParams,
    config: RoundConfig,
    contributed: Contribution,
    encoded: EncodedVector,
    budget: Mapping[str, Any] | None,
) -> Path:
    """Write the report of a round that this device is about to contribute to, for its owner only.

    Args:
        data_dir: the device's own folder.
        params: what was asked.
        config: configuration of the round.
        contributed: what this device contributed: its record, or zeros instead.
        encoded: the same as integers.
        budget: how the device's budget stands once the round is paid; None where it has none.

    Returns:
        The path: `data_dir/reports/<session>-<number>-<attempt>.json`.

    Raises:
        ValueError: the session does not fit a file name; the coordinator is at fault.
        OSError: it cannot be written.
    """
    name, privacy = report_name(config.round_id), privacy_report(params, config.topology)
    return keep_report(data_dir, name, _of_sum(name, params, contributed, encoded, privacy, budget))


def report_name(round_id: RoundId) -> str:
    """Return what the report of an attempt is called."""
    return f"{round_id.session}-{round_id.number}-{round_id.attempt}"


def write_batch_report(
    data_dir: Path,
    name: str,
    asked: AskedBatch,
    contributed: Contribution,
    encoded: EncodedVector,
    budget: Mapping[str, Any] | None,
) -> Path:
    """Write the report of a batch that this device is about to answer, for its owner only.

    Args:
        data_dir: the device's own folder.
        name: name of the charge.
        asked: the question.
        contributed: what this device contributed: its record, or zeros instead.
        encoded: the same as integers.
        budget: how the device's budget stands once the batch is paid; None where it has none.

    Returns:
        The path: `data_dir/reports/<name>.json`.

    Raises:
        ValueError, OSError: see `write_sum_report`.
    """
    privacy = asked.question.privacy_report()
    return keep_report(data_dir, name, _of_sum(name, asked.question.sum, contributed, encoded, privacy, budget))


def _of_sum(
    name: str,
    params: SumParams,
    contributed: Contribution,
    encoded: EncodedVector,
    privacy: Mapping[str, Any],
    budget: Mapping[str, Any] | None,
) -> dict[str, Any]:
    return {
        "round": name,
        "analysis": params.analysis,
        "record": params.record,
        "largest": params.largest,
        "record_was_used": not contributed.not_used_because,
        "not_used_because": contributed.not_used_because or None,
        "weight_was_clipped": contributed.weight_was_clipped,
        "values_left_out": contributed.n_left_out,
        "clipped_fraction": encoded.clipped_fraction,
        "norm_was_clipped": encoded.norm_was_clipped,
        "privacy": dict(privacy),
        "budget": None if budget is None else dict(budget),
    }


def write_factor_report(
    data_dir: Path, rounds: DeviceRounds, config: RoundConfig, used: UsedRatings, budget: Mapping[str, Any] | None
) -> Path:
    """Write the report of a round of a matrix factorization that this device is about to contribute to.

    Args:
        data_dir: the device's own folder.
        rounds: rounds of the question.
        config: configuration of the attempt.
        used: the ratings that count.
        budget: how the device's budget stands once the round is paid.

    Returns:
        The path, as `write_sum_report`.

    Raises:
        ValueError, OSError: see `write_sum_report`.
    """
    report: dict[str, Any] = {
        "round": report_name(config.round_id),
        "analysis": rounds.question.analysis,
        "record": rounds.question.record,
        "number_of_round": config.round_id.number,
        "rounds_planned": rounds.n_rounds,
        "record_was_used": not used.not_used_because,
        "not_used_because": used.not_used_because or None,
        "ratings_used": len(used.places),
        "ratings_clipped": used.n_outside,
        "ratings_of_unknown_items": used.n_unknown,
        "ratings_left_out": used.n_left_out,
        "privacy": rounds.privacy_report(),
        "budget": None if budget is None else dict(budget),
    }
    return keep_report(data_dir, report_name(config.round_id), report)


def write_survey_report(
    data_dir: Path, name: str, asked: AskedQuestion, device: str, answers: Input, budget: Mapping[str, Any] | None
) -> Path:
    """Write the report of a response that this device is about to keep, for its owner only.

    Args:
        data_dir: the device's own folder.
        name: name of the charge.
        asked: the question.
        device: name in the device's certificate.
        answers: what the record said.
        budget: how the device's budget stands once the response is paid.

    Returns:
        The path: `data_dir/reports/<name>.json`.

    Raises:
        ValueError, OSError: see `write_sum_report`.
    """
    question = asked.about(device).question
    report: dict[str, Any] = {
        "survey": asked.question_id.hex(),
        "record": question.record,
        "range": list(question.range),
        **({} if question.second is None else {"second": list(question.second)}),
        "record_was_used": not answers.not_used_because,
        "not_used_because": answers.not_used_because or None,
        "value_was_clipped": answers.was_clipped,
        "privacy": question.privacy_report(),
        "budget": None if budget is None else dict(budget),
    }
    if asked.question.others:
        report |= {"records_of_person": len(asked.question.records), "of_person": asked.question.privacy_report()}
    return keep_report(data_dir, name, report)


def kept_rounds(data_dir: Path) -> list[str]:
    """Return the rounds of which there is a report, the oldest first."""
    paths = (data_dir / "reports").glob("[!.]*.json")
    return [path.stem for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))]


def read_sum_report(data_dir: Path, round_name: str) -> dict[str, Any]:
    """Return the report of a round.

    Raises:
        SettingsError: there is none.
    """
    try:
        found: dict[str, Any] = json.loads(report_path(data_dir, round_name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise SettingsError(f"there is no report of round {round_name!r}") from None
    return found


def describe_sum_report(report: Mapping[str, Any]) -> list[str]:
    """Return the lines in which the owner of a device reads a report, of a sum or of a survey."""
    if "survey" in report:
        return _describe_survey_report(report)
    if "rounds_planned" in report:
        return _describe_factor_report(report)
    shortened = "; the whole vector was shortened" if report["norm_was_clipped"] else ""
    lines = [f"round {report['round']}: {report['analysis']} of {report['record']}"]
    if not report["record_was_used"]:
        lines.append(f"The record was not used, zeros were contributed instead: {report['not_used_because']}")
    if report["weight_was_clipped"]:
        lines.append("The weight was outside the declared range (0 .. largest_weight) and was clipped.")
    if report.get("values_left_out"):  # reports of earlier versions do not have it
        lines.append(
            f"{report['values_left_out']} numbers of the record are more than the question counts of a member."
        )
    lines += [
        f"clipped: {report['clipped_fraction']:.2%} of the entries were larger than {report['largest']:g}{shortened}",
        *describe(report["privacy"], "members"),
    ]
    return lines + _lines_of_budget(report["budget"])


def _describe_survey_report(report: Mapping[str, Any]) -> list[str]:
    lines = [f"survey {report['survey']}: distribution of {report['record']}"]
    if not report["record_was_used"]:
        lines.append(f"The record was not used, the device answered as if it had none: {report['not_used_because']}")
    if report["value_was_clipped"]:
        lower, upper = report["range"]
        lines.append(f"The value lies outside {lower:g} .. {upper:g}, and counted as the nearer end.")
    lines += describe(report["privacy"], "members")
    if "of_person" in report:
        lines.append(f"With the responses of your other devices, about {report['records_of_person']} records in all:")
        lines += describe(report["of_person"], "members")
    return [*lines, *_lines_of_budget(report["budget"])]


def _describe_factor_report(report: Mapping[str, Any]) -> list[str]:
    place = f"round {report['number_of_round'] + 1} of {report['rounds_planned']}"
    lines = [f"round {report['round']}: {report['analysis']} of {report['record']}, {place}"]
    if not report["record_was_used"]:
        lines.append(f"The record was not used, zeros were contributed instead: {report['not_used_because']}")
    lines.append(
        f"ratings that count: {report['ratings_used']}, of which {report['ratings_clipped']} were outside the bounds; "
        f"not counted: {report['ratings_of_unknown_items']} of unknown items, {report['ratings_left_out']} beyond the "
        "declared number"
    )
    return [*lines, *describe(report["privacy"], "members"), *_lines_of_budget(report["budget"])]


def _lines_of_budget(budget: Mapping[str, Any] | None) -> list[str]:
    if budget is None:
        return []
    limit = f"epsilon {budget['epsilon']:g} at delta {budget['delta']:g}"
    return [
        f"Budget of period {budget['period']!r}: {limit}, {standing_of(budget, 'members')}.",
        *lines_of_person(budget),
    ]


def lines_of_person(budget: Mapping[str, Any]) -> list[str]:
    """Return what all devices of a person may tell, where the budget of this one is a part of hers."""
    k = budget.get("devices_of_person", 1)  # reports of earlier versions do not have it
    if k == 1:
        return []
    whole = f"epsilon {k * budget['epsilon']:.6g} at delta {k * budget['delta']:.6g}"
    return [f"This is one of {k} parts: your {k} devices together may tell {whole}, if each is configured so."]
