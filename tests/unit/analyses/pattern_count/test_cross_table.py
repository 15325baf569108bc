"""A cross-table: a pattern count with totals, laid out as a table."""

import json

import numpy as np
import pytest
from analyst_results import view_of
from registry_jobs import VARIANTS

from analyses.job.job import JobError
from analyses.registry import analysis_of
from analyst.client import result_of
from results.drawing.chart import Cells, PictureError, Rows
from results.kinds.cross_table import MAX_ACROSS
from results.registry import lines_of, picture_of

COUNTS = np.array([[50.0, 0.5, -2.0], [20.0, 31.0, 1.0]])


def result(counts=COUNTS, error=1.0, **changes):
    fields = json.loads(view_of("cross-table").result_json)
    return fields | {
        "columns": ["bank.region", "shop.loyal"],
        "categories": {"bank.region": [0, 1], "shop.loyal": [0, counts.shape[1] - 1]},
        "labels": {"bank.region": ["north", "south"]},
        "counts": counts.tolist(),
        "standard_errors": np.full(counts.shape, error).tolist(),
        **changes,
    }


def test_totals_are_those_of_the_cells_and_their_errors_add_up():
    found = json.loads(view_of("cross-table").result_json)
    counts, errors = np.array(found["counts"]), np.array(found["standard_errors"])
    for axis, name in enumerate(found["columns"]):
        others = tuple(a for a in range(counts.ndim) if a != axis)
        np.testing.assert_allclose(found["totals"][name], counts.sum(axis=others))
        np.testing.assert_allclose(found["total_standard_errors"][name], 4 * errors.flat[0])
    assert found["n_rows"] == pytest.approx(counts.sum())
    assert "totals" not in json.loads(view_of("pattern-count").result_json)


def test_as_text_it_is_a_table_whose_noise_is_no_finding():
    lines = lines_of("cross-table", result())
    assert lines[:6] == [
        "rows by bank.region, and by shop.loyal from left to right",
        "bank.region       0       1   2    total",
        "north        50 +-2      <3  <2   48 +-3",
        "south        20 +-2  31 +-2  <3   52 +-3",
        "total        70 +-3  32 +-3  <3  100 +-5",
        "+- is half of a 95 % interval; < is a count that is not distinguishable from 0",
    ]
    assert "<0" not in "".join(lines_of("cross-table", result(np.zeros((2, 3)), 1e-5)))


def test_as_a_picture_its_cells_are_shaded_and_noise_alone_is_not_drawn():
    (panel,) = picture_of(result()).panels
    assert isinstance(panel, Cells)
    assert (panel.labels, panel.heads) == (("north", "south"), ("0", "1", "2"))
    assert panel.values == ((50.0, 0.0, 0.0), (20.0, 31.0, 1.0))
    with pytest.raises(PictureError, match="no count is distinguishable from 0"):
        picture_of(result(error=100.0))


def test_a_wide_one_is_a_list_of_patterns():
    wide = result(np.full((2, MAX_ACROSS + 1), 40.0))
    assert lines_of("cross-table", wide)[0].startswith("rows with each pattern")
    (panel,) = picture_of(wide).panels
    assert isinstance(panel, Rows)


def test_as_a_frame_it_is_the_table():
    view = view_of("cross-table")
    frame = result_of(view).to_polars()
    assert frame.columns == ["bank.code", "hospital.code", *(f"telco.code={i}" for i in range(4)), "total"]
    assert frame.shape == (17, 7)
    assert frame["total"][-1] == pytest.approx(json.loads(view.result_json)["n_rows"])


def test_reports_of_single_rows_make_no_cross_table():
    variant = VARIANTS["cross-table"]
    job = variant.job(parameters={"method": "randomized-response"}, compute=())
    with pytest.raises(JobError, match=r"^parameters.method: a cross-table is counted by 'mpc'"):
        analysis_of(job).plan(job, [table.schema for table in variant.tables().values()])
