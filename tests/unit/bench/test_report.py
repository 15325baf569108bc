import json
import sys

import pytest
from matplotlib.figure import Figure

from bench import report
from bench.goals import GOALS, HEAD, OF_GOALS, goal_rows, passes
from bench.pages import as_markdown
from bench.plot import draw
from bench.plot_growth import draw_growth
from bench.report import MEASUREMENTS, Measurement, keep, kept_results, render, run
from bench.targets import TARGETS

MACHINE = {"cpu": "a processor", "cores": 2, "memory_gib": 8, "system": "Linux", "python": "3.11", "numpy": "2"}
LEDGER = {
    "command": "python -m bench.privacy.ledger",
    "date": "2026-01-02",
    "seconds": 9.0,
    "note": None,
    "report": {
        "wait_for_disk_ms": 0.5,
        "jobs_per_second_by_threads": {"1": 100.0, "16": 740.0},
        "accounting": {"events": 10000, "seconds": 1.5, "epsilon": 3.0},
    },
}


def test_every_target_is_one_of_a_measurement():
    assert {target.measurement for target in TARGETS} <= {measurement.name for measurement in MEASUREMENTS}


def test_every_goal_of_scale_has_a_row_with_all_that_is_asked_of_it_measured_or_not():
    assert {target.measurement for target in TARGETS} >= OF_GOALS
    rows = goal_rows({})
    assert [len(row) for row in rows] == [len(HEAD)] * len(GOALS)
    for what, bound, ours, _, *rest in rows:
        assert all((what, bound, ours, *rest[:3])), what


def test_a_target_of_a_goal_stands_in_the_table_of_goals_alone():
    floor = {"floor_ns_per_cell": {"all": 8.0}, "ratio": 3.0}
    page = as_markdown({"floor": {**LEDGER, "command": "python -m bench.jobs.floor", "report": floor}}, MACHINE)
    (line,) = (line for line in page.splitlines() if "| 2.0 times | 3.0 times | **no** |" in line)
    assert "| 1 (8.0 ns) |" in line
    assert "## Where the time of a value goes" not in page


def test_what_passes_do_not_take_is_said_to_be_messages():
    floor = {
        "rows": 10,
        "columns": 2,
        "job_ns_per_cell": 20.0,
        "passes_ns_per_cell": {"multiply": 5.0},
        "threads_ns_per_cell": {"event loop": 10.0, "arithmetic": 10.0, "system": 4.0},
    }
    text = passes({"floor": floor})
    assert "| messages, threads, Python | 15.00 ns | 75% |" in text
    assert "event loop 50%, arithmetic 50%; of all that the system 20%" in text


def test_the_page_says_what_is_met_what_is_not_and_what_is_missing():
    lines = as_markdown({"ledger": LEDGER}, MACHINE).splitlines()
    assert "Measured on 2026-01-02." in lines
    assert any("| 500 | 740 | yes | `python -m bench.privacy.ledger` |" in line for line in lines)
    assert any("| 1 s | 1.50 s | **no** |" in line for line in lines)
    assert any("not measured yet" in line for line in lines)


def test_results_of_different_machines_are_told_apart():
    other = {**MACHINE, "cpu": "another processor", "instructions": "AVX2"}
    noise = {**LEDGER, "command": "python -m bench.privacy.noise", "machine": other, "failure": "stopped"}
    del noise["report"]
    one = as_markdown({"ledger": {**LEDGER, "machine": MACHINE}}, other)
    assert "a processor, vector instructions not noted, 2 cores" in one
    assert "another processor" not in one
    both = as_markdown({"ledger": {**LEDGER, "machine": MACHINE}, "noise": noise}, MACHINE)
    assert "* ledger: a processor, vector instructions not noted, 2 cores" in both
    assert "* noise: another processor, AVX2, 2 cores" in both


def grown(analysis, rows, resident_mb, **changes):
    times = {"seconds": 9.0, "processor_s": 4.0, "ns_per_cell": 40.0, "compiler": False}
    memory = {"peak_resident_mb": resident_mb, "own_mb": 200.0, "file_mb": 90.0, "kept_mb": 120.0}
    return {"analysis": analysis, "rows": rows, "columns": 100, **times, **memory, **changes}


def test_the_page_shows_jobs_by_analysis_and_rows_and_whether_memory_stays_below_its_target():
    few = {
        **LEDGER,
        "command": "growth",
        "report": {"jobs": [grown("pca", 1000, 300.0), grown("moments", 1000, 250.0)]},
    }
    many = {**LEDGER, "command": "growth_1e7", "report": {"jobs": [grown("pca", 10**7, 451.0, seconds=200.0)]}}
    page = as_markdown({"growth": few, "growth_1e7": many}, MACHINE)
    lines = [line for line in page.splitlines() if line.startswith(("| pca |", "| moments |"))]
    assert [line.split(" | ")[2] for line in lines] == ["1,000", "10,000,000", "1,000"]
    assert "as in images" in page
    assert "| 450 MB | 300 MB | yes | `growth` |" in page
    assert "| 450 MB; 60 s | 451 MB; 200 s | **no**; **no** |" in page


def batch(n_parties, elements, resharing_ms, double_sharings_ms, chosen):
    costs = {"sent_bytes_per_product": 8.0, "cpu_ns_per_product": 25.0}
    ways = {"resharing": resharing_ms, "double_sharings": double_sharings_ms}
    rows = {way: {**costs, "batch_ms": ms} for way, ms in ways.items()}
    return {"parties": n_parties, "elements": elements, **rows, "chosen": chosen, "faster": min(ways, key=ways.get)}


def test_the_page_warns_where_rule_and_measurement_disagree():
    right = batch(3, 1000, 0.5, 5.0, "resharing")
    wrong = batch(7, 50_000, 12.0, 10.0, "resharing")
    page = as_markdown({"reduction": {**LEDGER, "report": {"products": [right]}}}, MACHINE)
    assert "| 3 | 1,000 |" in page
    assert "disagree" not in page
    page = as_markdown({"reduction": {**LEDGER, "report": {"products": [right, wrong]}}}, MACHINE)
    assert "disagree" in page
    assert "* N = 7, 50,000 elements: it chooses resharing, 1.20 times the other's time" in page


def test_bytes_on_the_wire_have_a_target_of_their_own():
    products = {"elements": 10, "parties": 3, "products_per_s": 4e6, "peak_resident_bytes": 1e8}
    products |= {"sent_bytes_per_product": 8.0, "wire_bytes_per_product": 8.6}
    page = as_markdown({"products": {**LEDGER, "report": products}}, MACHINE)
    assert "| 12; 8.5; 250 MB | 4.0; 8.60; 100 MB | **no**; **no**; yes |" in page
    del products["wire_bytes_per_product"]
    assert "| 4.0; -; 100 MB | **no**; not compared; yes |" in as_markdown(
        {"products": {**LEDGER, "report": products}}, MACHINE
    )


def gram(rows, columns, table="synthetic"):
    theirs = {"mpyc": {"seconds": 2.0}} if table == "synthetic" else {}
    return {"table": table, "rows": rows, "columns": columns, "parties": 3, "seconds": 0.5, "numpy_s": 0.01, **theirs}


def test_the_picture_has_rows_and_columns_apart(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: drawn.update({"figure": figure}))
    shapes = [(1000, 100), (10000, 10), (10000, 100), (1000, 10), (10000, 30)]
    draw([*(gram(*shape) for shape in shapes), gram(145_586, 118, "kdd")], tmp_path / "picture.png")
    rows, columns = drawn["figure"].axes
    assert (rows.get_xlabel(), columns.get_xlabel()) == ("rows, at 100 columns", "columns, at 10,000 rows")
    assert {axes.get_xscale() for axes in (rows, columns)} == {axes.get_yscale() for axes in (rows, columns)} == {"log"}
    lines = [[list(line.get_xdata()) for line in axes.get_lines()] for axes in (rows, columns)]
    assert lines == [[[1000, 10000]] * 3 + [[145_586]] * 2, [[10, 30, 100]] * 3 + [[118]] * 2]


def test_the_second_picture_has_rows_columns_parties_and_members(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: drawn.update({"figure": figure}))
    used = {"processor_s": {"party": 0.1, "coordinator": 0.2}, "floor_s": 0.01}
    shapes = {"a": (3, 10000, 50), "b": (3, 10000, 100), "c": (9, 10000, 100), "d": (3, 100, 5)}
    sizes = ("parties", "rows", "columns")
    reports = {f"gram_{name}": dict(zip(sizes, shape, strict=True)) | used for name, shape in shapes.items()}
    reports["gram_old"] = {"parties": 3, "rows": 10000, "columns": 30}  # without processor time
    reports["growth"] = {"jobs": [grown("pca", 1000, 300.0), grown("moments", 1000, 250.0)]}
    reports["growth_1e7"] = {"jobs": [grown("pca", 10**7, 400.0, processor_s=9.0)]}
    reports["secagg_10"] = {"run": {"members": 10, "elements": 1000, "coordinator_cpu_s": 0.3}}
    draw_growth(reports, tmp_path / "growth.png")
    panels = [{line.get_label(): list(line.get_xdata()) for line in axes.get_lines()} for axes in drawn["figure"].axes]
    rows, columns, parties, members = panels
    assert rows == {"pca, 100 columns": [1000, 10**7], "moments, 100 columns": [1000]}
    assert columns["a party"] == columns["product, key stream and copies"] == [50, 100]
    assert parties["the coordinator"] == [3, 9]
    assert members == {"the coordinator, 1,000 elements": [10]}


def test_the_page_shows_processor_time_beside_its_floor():
    costs = {"sent_bytes": 1e6, "peak_resident_bytes": 1e8, "first_job_s": 1.0}
    used = {"processor_s": {"party": 0.034, "coordinator": 0.03, "all": 0.132}, "floor_s": 0.0042}
    page = as_markdown({"gram_3_parties_100x5": {**LEDGER, "report": gram(100, 5, "kdd") | costs | used}}, MACHINE)
    assert "| 3 | 100 x 5 | 10 ms | 0.50 s | 1.00 s | 34 ms | 4.2 ms | 132 ms | 1.00 MB | 100 MB |" in page
    assert "| 0.04 s; 20 ms; 100 ms | 0.500 s; 34 ms; 132 ms | **no**; **no**; **no** |" in page


def test_nothing_to_show_draws_nothing(tmp_path):
    draw([], tmp_path / "picture.png")
    draw_growth({}, tmp_path / "picture.png")
    assert not (tmp_path / "picture.png").exists()


def test_a_failure_is_said_and_the_numbers_of_the_last_run_stay(tmp_path):
    keep(tmp_path, "ledger", LEDGER)
    keep(tmp_path, "ledger", {"date": "2026-03-04", "command": "", "seconds": 1.0, "failure": "the disk is full"})
    kept = kept_results(tmp_path)
    page = as_markdown(kept, MACHINE)
    assert "**ledger failed on 2026-03-04**: the disk is full; its numbers are of 2026-01-02." in page
    assert "740" in page
    keep(tmp_path, "ledger", LEDGER)
    assert "failed" not in as_markdown(kept_results(tmp_path), MACHINE).split("## Targets")[0]


def test_a_first_failure_leaves_a_page_without_its_numbers(tmp_path):
    keep(tmp_path / "results", "ledger", {"date": "2026-03-04", "command": "", "seconds": 1.0, "failure": "no disk"})
    page = render(tmp_path / "results", tmp_path / "docs")
    assert "**ledger failed on 2026-03-04**: no disk." in page
    assert (tmp_path / "docs" / "benchmarks.md").read_text() == page


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Modules that stand for measurements: one works alone, but its peer cannot be installed; one fails."""
    (tmp_path / "lonely.py").write_text(
        "import sys\nif '--peer' in sys.argv:\n    sys.stderr.write('no index')\n    sys.exit(3)\nprint('{\"x\": 1}')\n"
    )
    (tmp_path / "broken.py").write_text("raise ValueError('wrong result')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(report, "TIMEOUT_S", 60.0)


@pytest.mark.usefixtures("programs")
def test_a_peer_that_cannot_be_installed_is_left_out_aloud(capsys):
    kept = run(Measurement("lonely", "lonely", ("lonely",), ("--peer", "other")))
    assert kept["report"] == {"x": 1}
    assert kept["command"] == "python -m lonely"
    assert kept["note"] == "not compared: no index"
    assert "SKIPPED the comparison of lonely" in capsys.readouterr().err


@pytest.mark.usefixtures("programs")
def test_a_program_that_fails_is_reported_with_its_last_words():
    kept = run(Measurement("broken", "broken", ("broken",)))
    assert kept["failure"] == "ValueError: wrong result"
    assert json.dumps(kept)
    assert sys.executable not in kept["command"]


def test_the_page_shows_tables_of_databases_beside_bare_readings_where_there_are_any():
    of = {"rows": 10**6, "seconds": 2.0, "processor_s": 0.5, "reader_mb": 200.0, "child_mb": 0.0, "server_s": 1.0}
    readings = [
        {"engine": "postgres", "way": "source", **of},
        {"engine": "postgres", "way": "table", **of, "processor_s": 0.9},
        {"engine": "duckdb", "way": "bare", **of, "processor_s": 0.2, "seconds": 1.0},
        {"engine": "duckdb", "way": "source", **of, "child_mb": 150.0},
        {"engine": "duckdb", "way": "table", **of},
    ]
    kept = {**LEDGER, "report": {"readings": readings, "table_memory_mib": 128}}
    page = as_markdown({"table_sources": kept}, MACHINE)
    assert "| postgres | 1,000,000 |  | 0.50 s, 200 MB | not compared | 0.90 s, 200 MB |" in page
    assert "| duckdb | 1,000,000 | 0.20 s, 200 MB | 0.50 s, 200 + 150 MB | 0.40 (0.50) | 0.50 s, 200 MB |" in page
