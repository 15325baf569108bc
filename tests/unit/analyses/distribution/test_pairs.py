"""Two numbers at once: cells, rectangles, shares with intervals, a job, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from surveys import asked, survey_question

from analyses.distribution.estimates.about_intervals import FEW_RESPONSES, OF_CELLS
from analyses.distribution.estimates.estimate import estimated
from analyses.distribution.estimates.shares import shares_of_sets
from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.pairs import PairGrid, usual_parts
from analyses.distribution.plan import plan
from analyses.distribution.reference import reference
from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.rows.grid import Grid
from analyses.run_locally import run_locally
from dp.local_mechanism.hadamard_response import HadamardResponse
from dp.local_mechanism.hashed_response import DirectResponse, HashedResponse
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from entropy import InsecureTestEntropy
from questions.forecast import plan_of
from questions.reading import question_from_toml
from results.kinds.distribution import DistributionResult
from results.registry import lines_of, picture_of

PARTIES = ("a", "b")
RECTANGLES = [[0.0, 50.0, 2.0, 10.0], [30.0, 55.0, 1.0, 3.0], [0.0, 100.0, 0.0, 10.0]]


def people(n, seed=1):
    rng = np.random.default_rng(seed)
    first = 100 * rng.beta(2, 4, n)
    return np.column_stack([first, np.clip(first / 10 + rng.normal(0, 1.5, n), 0, 9.99)])


def answered(question, values, seed="pairs"):
    inquiry, choices = question.inquiry, PublicChoices(seed.encode(), map(str, range(len(values))))
    inputs = np.array([question.input_of(one).value for one in values])
    tally = tally_of(inquiry.response)
    tally.add(inquiry.response.respond(inputs, choices, InsecureTestEntropy(seed)), choices)
    return estimated(inquiry, tally)


def share_in(values, rectangle):
    a, b, c, d = rectangle
    first, second = values.T
    return np.mean((a <= first) & (first < b) & (c <= second) & (second < d))


def test_a_pair_has_one_cell_and_a_rectangle_covers_parts_of_cells():
    grid = PairGrid((Grid(0.0, 100.0, 4), Grid(0.0, 10.0, 5)))
    places, clipped = grid.places(np.array([[0.0, 0.0], [25.0, 1.99], [99.0, 10.0], [-5.0, 30.0]]))
    assert places.tolist() == [0, 5, 19, 4]
    assert clipped.tolist() == [1, 1]
    covered = grid.covered((25.0, 60.0, 0.0, 3.0))
    part = np.outer([0, 1, 0.4, 0], [1, 0.5, 0, 0, 0])
    assert covered.evenly == pytest.approx(part.ravel())
    assert covered.wholly.tolist() == (part == 1).ravel().tolist()
    assert covered.at_all.tolist() == (part > 0).ravel().tolist()
    assert covered.cuts
    assert not PairGrid((Grid(0.0, 0.3, 3), Grid(0.0, 0.7, 7))).covered((0.1, 0.2, 0.3, 0.6)).cuts


def test_by_default_there_are_as_many_cells_as_bias_and_noise_balance():
    """The formula of the source in floating point: sqrt(2 alpha (e^eps - 1) sqrt(n / e^eps)), alpha = .08."""
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for n in (1000, 100_000, 10_000_000):
            exact = np.sqrt(2 * 0.08 * np.expm1(epsilon) * np.sqrt(n / np.exp(epsilon)))
            assert usual_parts(Odds.of_epsilon(epsilon), n) == min(32, max(2, int(exact + 0.5)))


def test_the_oracle_is_the_one_of_the_least_variance_and_one_bit_where_hashes_have_no_more():
    for epsilon, kind in ((0.25, HadamardResponse), (1.0, HashedResponse), (6.0, DirectResponse)):
        assert type(survey_question(method="grid", epsilon=epsilon).inquiry.response) is kind


@pytest.mark.parametrize(("epsilon", "n"), [(0.375, 8000), (1.0, 2000), (8.0, 2000)])
def test_the_stated_error_of_sets_is_that_of_their_shares_over_many_answers(epsilon, n):
    """Standard errors from 200 answers are off by a twentieth; sampling of the respondents is in them."""
    question = survey_question(method="grid", epsilon=epsilon, cells=(2, 3))
    oracle, rng = question.inquiry.response, np.random.default_rng(3)
    whole = np.array([0.6, 0.02, 0.03, 0.05, 0.1, 0.1, 0.1])
    sets = np.array([[1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 1, 1], [0.5, 0, 0, 1, 0, 0.25], [1, 1, 1, 1, 1, 1]], dtype=float)
    found = []
    for run in range(200):
        choices = PublicChoices(f"{run}".encode(), map(str, range(n)))
        tally = tally_of(oracle)
        tally.add(oracle.respond(rng.choice(7, n, p=whole), choices, InsecureTestEntropy(f"{run}")), choices)
        shares = shares_of_sets(oracle, tally.frequencies, whole, n, sets)
        if shares is not None:
            found.append(shares)
    shares, errors = (np.array([one[at] for one in found]) for at in (0, 1))
    assert len(found) > 190
    off = shares - sets @ whole[:-1] / 0.9
    assert np.abs(off.mean(axis=0))[:3] == pytest.approx(
        np.zeros(3), abs=4 * errors.mean() / np.sqrt(len(found)) + 0.005
    )
    assert off.std(axis=0)[:3] / errors.mean(axis=0)[:3] == pytest.approx(np.ones(3), abs=0.2)
    assert np.abs(off[:, 3]).max() < 1e-9


def test_shares_are_one_distribution_and_intervals_hold_what_is_stated_and_the_truth():
    values, question = people(6000), survey_question(method="grid", epsilon=4.0, rectangles=RECTANGLES)
    result = answered(question, values)
    grid = result["grid"]
    cells, (first, second) = np.array(grid["cells"]), (np.array(margin) for margin in grid["margins"])
    assert cells.shape == (4, 5, 3)
    assert (cells[..., 0] >= 0).all()
    assert cells[..., 0].sum() == pytest.approx(1)
    assert cells[..., 0].sum(axis=1) == pytest.approx(first[:, 0])
    assert cells[..., 0].sum(axis=0) == pytest.approx(second[:, 0])
    for numbers in (cells.reshape(-1, 3), first, second):
        assert (numbers[:, 1] <= numbers[:, 0]).all()
        assert (numbers[:, 0] <= numbers[:, 2]).all()
    for rectangle, (*ends, share, error, lower, upper) in zip(RECTANGLES, grid["rectangles"], strict=True):
        assert ends == rectangle
        assert lower <= min(share, share_in(values, rectangle)) + 1e-9
        assert upper >= max(share, share_in(values, rectangle)) - 1e-9
        assert error < 0.03
    assert grid["rectangles"][2][4:] == pytest.approx([1.0, 0.0, 1.0, 1.0])
    assert result["about_intervals"] == OF_CELLS
    assert result["rows"] == pytest.approx(6000, abs=400)


def test_whoever_sits_where_in_a_cell_that_is_cut_the_interval_holds_it():
    """All people of a cell are in the part of it that the rectangle has, or none is: the even spread is off by much."""
    rectangle, low, high = (0.0, 90.0, 0.0, 10.0), np.full((3000, 2), 1.0), np.full((3000, 2), 1.0)
    low[::2, 0], high[::2, 0] = 76.0, 99.0
    for values in (low, high):
        found = answered(survey_question(method="grid", epsilon=4.0, rectangles=[rectangle]), values)
        (*_, share, error, lower, upper) = found["grid"]["rectangles"][0]
        truth = share_in(values, rectangle)
        assert lower <= truth <= upper
        assert abs(share - truth) > 5 * error


def test_where_the_rows_are_hardly_seen_nothing_is_said_of_errors():
    for values in (np.full((400, 2), np.nan), people(20)):
        found = answered(survey_question(method="grid", epsilon=0.1, rectangles=RECTANGLES), values)
        assert found["about_intervals"] == FEW_RESPONSES
        assert all(ends == [None, None] for column in found["grid"]["cells"] for _, *ends in column)
        assert all(one[5:] == [None, None, None] for one in found["grid"]["rectangles"])
        (panel,) = picture_of(found).panels
        assert panel.intervals[0][0] is None


def test_a_forecast_is_the_error_of_the_answer_and_wider_where_cells_are_cut():
    values, question = people(5000), survey_question(method="grid", epsilon=2.0, rectangles=RECTANGLES)
    forecast, found = plan_of(question, 5000).forecast, answered(question, values)["grid"]
    errors = {one.name: one for one in forecast.quantities}
    for rectangle in found["rectangles"][:2]:
        name = "share of {:g} to {:g} and {:g} to {:g}".format(*rectangle[:4])
        assert errors[name].standard_error == pytest.approx(rectangle[5], rel=0.2)
    assert errors["share of 0 to 50 and 2 to 10"].bad_case == errors["share of 0 to 50 and 2 to 10"].standard_error
    assert errors["share of 30 to 55 and 1 to 3"].bad_case > 3 * errors["share of 30 to 55 and 1 to 3"].standard_error
    assert "two values" in forecast.assumptions[0]
    assert plan_of(question, 5).forecast.not_forecast


def job_of(epsilon=4.0, **parameters):
    tree = {
        "analysis": "distribution",
        "inputs": [{"party": name, "table": "people"} for name in PARTIES],
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "parameters": {"method": "grid", **parameters},
    }
    return Job.model_validate(tree)


def tables_of(n=3000):
    columns = tuple(ColumnSchema(name=name, lower=0.0, upper=upper) for name, upper in (("age", 100.0), ("wage", 10.0)))
    found = {}
    for seed, name in enumerate(PARTIES):
        values = people(n, seed)
        values[0], values[1] = (1e9, 1e9), (-5.0, 3.0)
        found[name] = Table(BlockSchema(party=name, columns=columns, rows=(1, n + 200)), values)
    return found


async def test_a_job_about_two_columns_finds_cells_margins_and_rectangles():
    tables = tables_of()
    job = job_of(rectangles=RECTANGLES)
    run = await run_locally(job, tables, entropy_of=lambda member: InsecureTestEntropy(f"grid {member}"))
    params, result = run.plan.params, run.result
    parts = usual_parts(run.plan.inquiry.odds, 6400)
    assert (params.range, params.second, params.cells) == ((0.0, 100.0), (0.0, 10.0), (parts, parts))
    cells, truth = np.array(result["grid"]["cells"]), reference(list(tables.values()), run.plan)
    assert truth.sum() == pytest.approx(1)
    assert np.abs(cells[..., 0] - truth).max() < 0.05
    assert np.mean((cells[..., 1] <= truth) & (truth <= cells[..., 2])) > 0.8
    for report in run.reports.values():
        assert report.clipped_values == {"age": 2, "wage": 1}
    shown = lines_of("distribution", result)
    assert shown[0] == f"grid: rows about {result['rows']:,.0f}; {parts} x {parts} cells"
    assert any(line.startswith("  first from 30 to 55, second from 1 to 3: 0.") for line in shown)
    table = DistributionResult(run.plan.job, result).table()
    assert len(table["share"]) == parts**2
    assert table["second_upper"][parts - 1] == 10.0
    (panel,) = picture_of(result).panels
    assert panel.values == tuple(tuple(row) for row in cells[..., 0].tolist())
    assert "share by first number and second number" in picture_of(result).alternative


@pytest.mark.parametrize(("cells", "has_table"), [((4, 5), True), ((4, 20), False)])
def test_shares_of_cells_are_listed_where_a_narrow_terminal_does_not_break_the_table(cells, has_table):
    question = survey_question(method="grid", epsilon=4.0, cells=cells)
    found = answered(question, people(800)) | {"privacy": question.privacy_report()}
    lines = lines_of("distribution", found)
    head = next((at for at, line in enumerate(lines) if line.startswith("  Shares of cells in %")), None)
    assert (head is not None) is has_table
    if head is not None:
        listed = lines[head + 2 :][: cells[0]]
        shares = [[float(word) / 100 for word in line.split()[3:]] for line in listed]
        assert np.array(shares) == pytest.approx(np.array(found["grid"]["cells"])[..., 0], abs=0.0006)
        assert max(map(len, listed)) <= 60


def test_a_question_states_its_cells_and_the_json_of_others_shows_no_field_of_a_grid():
    question = survey_question(method="grid", cells=None, responses=100_000)
    assert question.cells == (7, 7)
    assert '"cells":[7,7]' in question.canonical_json()
    assert not any(f'"{name}"' in survey_question().canonical_json() for name in ("second", "cells", "rectangles"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"second": None}, "second: grid asks about two numbers"),
        ({"second": (5.0, 5.0)}, "second: the lower end must be below"),
        ({"second": (10.0, 0.0)}, "second: the lower end must be below"),
        ({"range": (100.0, 0.0)}, "range: the lower end must be below"),
        ({"second": (1e99, 1e101)}, "second: an end of it is at most"),
        ({"cells": (1, 1)}, "cells: 1 x 1 cells are not 2 to 1024"),
        ({"cells": (1000, 1000)}, "cells: 1000 x 1000 cells are not 2 to 1024"),
        ({"cells": (0, 5)}, "cells"),
        ({"cells": None}, "cells: state how many"),
        ({"cells": None, "responses": 50, "rounds": 2, "series": "s"}, "cells: state how many"),
        ({"rectangles": [(50.0, 40.0, 0.0, 1.0)]}, "rectangles: 50 to 40 is no range within 0 to 100"),
        ({"rectangles": [(40.0, 50.0, 0.0, 11.0)]}, "rectangles: 0 to 11 is no range within 0 to 10"),
        ({"rectangles": [(0.0, 1.0, 0.0, 1.0)] * 65}, "rectangles"),
        ({"rectangles": [(0.0, float("nan"), 0.0, 1.0)]}, "rectangles"),
        ({"queries": [(0.0, 1.0)]}, "queries: grid has rectangles"),
        ({"estimate": "isotonic"}, "estimate: grid has norm-sub"),
        ({"fine": 512}, "fine: grid has none"),
        ({"method": "wave", "second": (0.0, 1.0)}, "second: wave has none; only grid"),
        ({"method": "bins", "rectangles": []}, "rectangles: bins has none; only grid"),
    ],
)
def test_a_question_that_asks_of_no_grid_is_refused_with_the_reason(changes, why):
    with pytest.raises((JobError, ValueError), match=why):
        survey_question(**{"method": "grid", **changes})


def test_a_job_needs_two_columns_with_bounds_that_agree():
    tables = tables_of(20)
    schemas = [tables[name].schema for name in PARTIES]
    one = [schema.model_copy(update={"columns": schema.columns[:1]}) for schema in schemas]
    with pytest.raises(JobError, match="inputs: a must bring exactly 2 columns; name them in `columns`"):
        plan(job_of(), one)
    with pytest.raises(JobError, match="must bring exactly one column; name it"):
        plan(job_of(method="wave"), schemas)
    wide = schemas[1].columns[1].model_copy(update={"upper": 20.0})
    schemas[1] = schemas[1].model_copy(update={"columns": (schemas[1].columns[0], wide)})
    with pytest.raises(JobError, match=r"parameters\.second: the columns have different bounds"):
        plan(job_of(), schemas)


def test_a_fixed_record_has_one_digest_per_mechanism_whatever_else_a_question_says():
    same = asked(method="grid", epsilon=6.0).fixed_digest()
    for changes in ({"buckets": 64}, {"bins": 8}, {"rectangles": RECTANGLES}, {"responses": 7}):
        assert asked(method="grid", epsilon=6.0, **changes).fixed_digest() == same
    for changes in ({"cells": (5, 4)}, {"second": (0.0, 11.0)}, {"range": (0.0, 99.0)}):
        assert asked(method="grid", epsilon=6.0, **changes).fixed_digest() != same


def test_the_example_asks_about_rectangles_of_whole_cells_that_are_seen():
    question = question_from_toml((Path(__file__).parents[4] / "examples" / "survey-grid.toml").read_text())
    assert not any(question.pairs.covered(one).cuts for one in question.rectangles)
    for quantity in plan_of(question).forecast.quantities:
        assert quantity.half_width < 0.03, quantity
