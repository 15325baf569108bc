import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from analyses.job.schema import LocalReport
from party.outcome.report import StageTraffic, describe_report, write_report

LOCAL = LocalReport(
    1200,
    clipped_values={"age": 3, "stay": 0},
    clipped_rows=7,
    mapped_values={"code": 2},
    surplus_rows=5,
    gaps={"income": 4},
    others={"region": 1},
    filtered=6,
    left_out=2,
    merged=3,
)
TRAFFIC = {"table": StageTraffic(sent_bytes=9000, received_bytes=4500)}
PRIVACY = {"coordinator": {"epsilon": 0.7}, "coalition": {"epsilon": 1.0}, "delta": 1e-5}

BUDGET = {"epsilon": 4.0, "remaining_epsilon": 3.5}


def write(data_dir: Path, job_id: str = "0f3a", local: LocalReport = LOCAL, privacy: object = PRIVACY) -> Path:
    return write_report(data_dir, job_id, local, traffic=TRAFFIC, privacy=privacy, budget=BUDGET, elapsed_s=2.5)  # type: ignore[arg-type]


def test_a_report_holds_counts_traffic_and_both_epsilons(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    assert path == tmp_path / "data" / "reports" / "0f3a.json"
    assert json.loads(path.read_text()) == {
        "job_id": "0f3a",
        "rows": 1200,
        "clipped_rows": 7,
        "clipped_values": {"age": 3, "stay": 0},
        "mapped_values": {"code": 2},
        "surplus_rows": 5,
        "gaps": {"income": 4},
        "others": {"region": 1},
        "filtered_rows": 6,
        "left_out_rows": 2,
        "merged_rows": 3,
        "traffic": {"table": {"sent_bytes": 9000, "received_bytes": 4500}},
        "privacy": PRIVACY,
        "budget": BUDGET,
        "elapsed_s": 2.5,
    }


def test_matched_rows_are_told_where_rows_were_matched_and_their_number_is_known(tmp_path: Path) -> None:
    path = write(tmp_path, local=replace(LOCAL, n_matched=0))
    report = json.loads(path.read_text())
    assert report["matched_rows"] == 0
    text = "\n".join(describe_report(report | {"privacy": {"views": {}, "mechanism": "m"}, "budget": None}))
    assert "rows without an id, which took no part: 2" in text
    assert "rows that became one with an earlier row of the same id: 3" in text
    assert "rows that all owners have, and that were used: 0" in text


def test_only_the_owner_can_read_a_report(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_writing_again_replaces_the_report_and_leaves_no_other_file(tmp_path: Path) -> None:
    write(tmp_path)
    path = write(tmp_path, local=LocalReport(n_rows=5, clipped_values={}, clipped_rows=0))
    assert json.loads(path.read_text())["rows"] == 5
    assert list(path.parent.iterdir()) == [path]


def test_a_report_that_cannot_be_moved_into_place_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "reports" / "0f3a.json").mkdir(parents=True)
    with pytest.raises(OSError, match=r"0f3a\.json"):
        write(tmp_path)
    assert [entry.name for entry in (tmp_path / "reports").iterdir()] == ["0f3a.json"]


@pytest.mark.parametrize("job_id", ["", "../0f3a", "a/b", ".hidden", "a\n", "x" * 129])
def test_a_job_id_that_would_name_another_file_is_refused(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(ValueError, match="job id"):
        write(tmp_path, job_id)
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_json_does_not_know_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write(tmp_path, privacy={"epsilon": float("inf")})
