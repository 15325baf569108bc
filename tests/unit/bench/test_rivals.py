"""Verdicts on what is measured beside other programs, and what those measurements rest on."""

import shutil

import numpy as np
import pytest

from bench.analyses import __main__ as analyses
from bench.analyses.claims import verdicts
from bench.analyses.logistic_regression import GRADIENT, LOCAL
from bench.analyses.rivals import components, intervals, labels, numbers, tables
from bench.analyses.table import Row
from bench.analyses.targets import target_lines
from bench.datasets import small_tables
from bench.utility.logistic_rivals import TABLES


def line(rows, text):
    (found,) = [one for one in target_lines(rows) if one[0].startswith(text)]
    return found


def counted(stated, measured, epsilon=1.0, name="a table"):
    return Row(numbers.COUNTS, name, epsilon, "error", mpc=measured, central=2.0, others={numbers.STATED: stated})


def test_errors_are_judged_by_what_is_stated_over_all_tables_of_the_worst_epsilon():
    good = [counted(2.4, 2.7), counted(2.5, 2.2, name="another"), counted(2.0, 2.0, epsilon=4.0)]
    _, _, measured, met, _ = line(good, "pattern counts beside")
    assert met == "yes"
    assert measured == "1.23 (measured 1.23) at epsilon 1, 1.00 (measured 1.00) at epsilon 4; 3 settings"
    assert line([*good, counted(2.7, 2.0, epsilon=0.5)], "pattern counts beside")[3] == "**no**"
    assert line([], "pattern counts beside")[2] == "not measured yet"


def test_what_is_to_be_large_is_judged_in_every_setting_and_exceptions_are_named():
    def row(ours, name):
        return Row(labels.ANALYSIS, f"{name} (10 rows)", 1.0, "area", mpc=ours, central=0.9)

    assert line([row(0.896, "one"), row(0.95, "two")], "logistic regression beside")[2:4] == ("2 of 2 settings", "yes")
    _, _, measured, met, _ = line([row(0.896, "one"), row(0.89, "two")], "logistic regression beside")
    assert (measured, met) == ("1 of 2 settings; not two, epsilon 1: 0.010 behind", "**no**")
    captured = Row(components.ANALYSIS, "a table", 1.0, "share", mpc=0.496, central=0.5)
    assert line([captured], "principal components beside")[3] == "yes"
    worse = Row(components.ANALYSIS, "a table", 1.0, "share", mpc=0.49, central=0.5)
    assert "2.0% behind" in line([worse], "principal components beside")[2]


def test_intervals_are_judged_one_by_one_and_those_that_none_states_are_left_out():
    def row(share, name="least squares"):
        return Row(intervals.ANALYSIS, name, 1.0, "share", mpc=share)

    assert line([row(0.9), row(0.99, "PCA"), row(None, "weights")], "stated intervals")[2:4] == ("2 of 2", "yes")
    assert line([row(0.9), row(0.88, "counts")], "stated intervals")[2:4] == (
        "1 of 2; not counts, epsilon 1: 0.880",
        "**no**",
    )


def test_the_claims_about_logistic_regression_are_judged_for_moments_and_for_both_forms_of_gradients():
    others = {GRADIENT: 0.70, LOCAL: 0.6}
    row = Row("logistic regression", "t (1)", 4.0, "accuracy", private=0.5, mpc=0.8, central=0.81, others=others)
    found = {v.claim: v.holds for v in verdicts([row]) if "SLR" in v.claim}
    near = {claim.split("(")[1]: holds for claim, holds in found.items() if "DP-SGD" in claim}
    assert near == {"three sums)": False, "one gradient)": False, "ours, by moments)": True}
    above = {claim.split("(")[1]: holds for claim, holds in found.items() if "local-noise" in claim}
    assert above == {"three sums)": False, "one gradient)": True, "ours, by moments)": True}


def test_one_part_is_measured_alone(tmp_path, monkeypatch):
    def part(name):
        return lambda quick: iter([Row("pca", name, 1.0, "captured", mpc=0.5)])

    monkeypatch.setattr(analyses, "measured", lambda: {"pca": {"first": part("one"), "second": part("two")}})
    docs = shutil.copytree(analyses.DOCS, tmp_path / "docs")
    assert analyses.main(["--part", "second", "--results", str(tmp_path / "kept"), "--docs", str(docs)]) == 0
    assert list(analyses.kept_results(tmp_path / "kept")["pca"]) == ["second"]
    assert "| two |" in (docs / "pca.md").read_text()


def test_the_page_says_where_a_machine_was_busy(tmp_path, monkeypatch):
    docs = shutil.copytree(analyses.DOCS, tmp_path / "docs")
    monkeypatch.setattr(
        analyses,
        "measured",
        lambda: {"pca": {"first": lambda quick: iter([Row("pca", "one", 1.0, "captured", mpc=0.5)])}},
    )
    pages = []
    for load in (0.5, 40.0):
        monkeypatch.setattr(analyses.os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        analyses.main(["--results", str(tmp_path / "kept"), "--docs", str(docs)])
        pages.append((docs / "pca.md").read_text())
    assert ["busy" in page for page in pages] == [False, True]


@pytest.mark.parametrize("name", ["breast tumours", "digits, 5 and more"])
def test_small_tables_lie_in_their_bounds_and_no_row_is_in_both_parts(name):
    data = TABLES[name]()
    for part in (data.training, data.testing):
        for table in part:
            lower, upper = ([getattr(c, bound) for c in table.schema.columns] for bound in ("lower", "upper"))
            assert (table.values >= lower).all()
            assert (table.values <= upper).all()
    n_rows = data.training[0].n_rows + data.testing[0].n_rows
    assert n_rows == len((small_tables.tumours if name == "breast tumours" else small_tables.digits)()[0])


def test_histograms_have_all_values_between_their_edges_and_parties_all_rows():
    for column in tables.binned():
        parties = column.of_parties(5)
        assert sum(table.n_rows for table in parties) == len(column.values)
        assert np.histogram(column.values, column.edges)[0].sum() == len(column.values)
