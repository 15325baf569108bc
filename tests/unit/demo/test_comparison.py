"""Every method of every demo, in this process: its job runs, and its answer is scored beside the exact one."""

from typing import get_args

import pytest
from virtual_time import run_in_virtual_time

from analyses.clustering.plan import ESTIMATORS
from analyses.registry import ANALYSES
from analyses.run_locally import local_network, run_plan
from demo.catalogue import DEMOS
from demo.comparison import Found, picture_of, scores_of
from demo.job import DATA_SETS, example_job, planned
from dp.cost.views import BUDGET_UNITS
from entropy import InsecureTestEntropy
from results.drawing.chart import PictureError

ROWS = 1500
WAYS = [(demo, method) for demo in DEMOS for method in demo.methods or [None]]
FAR = {"epsilon": 16.0}
"""Of a row: so that the answer of so few rows is close to the exact one in all methods that can be."""

CLOSE = {
    "clustering": lambda ours, exact: ours < 1.5 * exact,
    "distribution": lambda ours, exact: ours < 0.05,
    "joint-mean": lambda ours, exact: abs(ours - exact) < 10,
    "least-squares": lambda ours, exact: 0.4 < ours <= exact < 1,
    "logistic-regression": lambda ours, exact: 0.9 < ours <= exact + 0.05,
    "low-rank": lambda ours, exact: exact < ours < 1.2 * exact,
    "matrix-factorization": lambda ours, exact: 0.9 * exact < ours < 2 * exact,
    "moments": lambda ours, exact: abs(ours - exact) < 0.1 * exact,
    "pattern-count": lambda ours, exact: ours < 10,
    "second-moments": lambda ours, exact: ours < 0.05,
    "pca": lambda ours, exact: 0.9 * exact < ours < exact,
    "scorecard": lambda ours, exact: abs(ours - exact) < 10,
}
"""Analysis to whether its first score says that the answer is good; by its default method."""

NOTHING_TO_DRAW = {
    ("least-squares", "sketch"),  # so few rows are hidden by its noise
    ("matrix-factorization", "statistics"),  # of rank 0
    ("matrix-factorization", "statistics-vertical"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Name of a table to the parties that hold it."""
    return {name: write(tmp_path_factory.mktemp("tables"), rows=ROWS) for name, (_, write) in DATA_SETS.items()}


def found_by(demo, method, data):
    job = example_job(*demo.example(FAR | {"method": method}))
    parties = data[job.inputs[0].table]
    tables, plan = planned(job, parties)
    assert plan.privacy_report()["unit"] in BUDGET_UNITS
    network = local_network(plan, entropy_of=lambda member: InsecureTestEntropy(f"{demo.name} {method} {member}"))
    ran = run_in_virtual_time(run_plan(plan, {table.schema.party: table for table in tables}, network))
    reports = {party: {"kept": report.kept} for party, report in ran.reports.items()}
    return Found(ran.result, reports, parties, tables, plan)


@pytest.mark.parametrize(("demo", "method"), WAYS, ids=lambda one: getattr(one, "name", one))
def test_every_method_is_shown_beside_the_answer_without_privacy(demo, method, data):
    found = found_by(demo, method, data)
    first, *_ = scores_of(found)
    assert first.no_privacy is not None
    if (demo.name, method) in NOTHING_TO_DRAW:
        with pytest.raises(PictureError, match="to draw"):
            picture_of(found.plan, found)
    else:
        assert picture_of(found.plan, found).panels
    if method == next(iter(demo.methods), None):
        assert CLOSE[demo.name](first.moiety, first.no_privacy)


def methods_in(name):
    """The values of the field that chooses a method of an analysis; where there is none, what its names end with."""
    fields, names = ANALYSES[name].parameters.model_fields, ANALYSES[name].names
    if "counting" in fields:
        return set(ESTIMATORS)
    if "form" in fields:
        return {form + of for form in get_args(fields["form"].annotation) for of in ("", "-vertical")}
    if "method" in fields:
        return set(get_args(fields["method"].annotation))
    return {one.partition("-")[2] for one in names} if len(names) > 1 else set()


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_a_demo_has_all_methods_of_its_analysis_and_begins_with_that_of_its_example(demo):
    assert set(demo.methods) == methods_in(example_job(demo.name).analysis)
    if demo.methods:
        first, own = example_job(*demo.example({"method": next(iter(demo.methods))})), example_job(demo.name)
        parameters = ANALYSES[demo.name].parameters
        assert parameters(**first.parameters).model_dump() == parameters(**own.parameters).model_dump()
