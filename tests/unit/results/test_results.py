"""Results of every analysis as objects: fields, tables, text, HTML; each with the names of scikit-learn that it has."""

import json
from dataclasses import replace

import numpy as np
import polars
import pytest
from analyst_results import NAMES, found, own_rows, view_of
from registry_jobs import VARIANTS
from typer.testing import CliRunner

from analyses.pattern_count.questions import QUESTIONS
from analyses.registry import ANALYSES
from analyst.client import result_of
from cli.main import app
from results.drawing.chart import PictureError
from results.generic.beyond_noise import beyond_noise
from results.generic.own_rows import RowsError
from results.generic.result import Result
from results.registry import KINDS, RESULTS

LABELLED = ("bank.x0", "bank.x1", "hospital.x0", "hospital.x1", "telco.x0")
"""The columns of the jobs of `VARIANTS`."""


def test_there_is_a_class_of_results_for_every_analysis():
    assert set(RESULTS) == set(ANALYSES)
    assert len(RESULTS) == sum(len(kind.analyses) for kind in KINDS)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_result_of_every_analysis_is_shown_in_every_way(name):
    result = found(name)
    fields = json.loads(view_of(name).result_json)
    assert type(result) is RESULTS[VARIANTS[name].analysis]
    assert result.to_dict() == fields
    table = result.to_polars()
    assert table.height > 0
    assert table.width > 1
    assert result.to_pandas().shape == table.shape
    assert "epsilon" in repr(result)
    assert set(fields) <= set(dir(result))
    own = set(fields) - {"privacy"}
    assert all(getattr(result, field) == fields[field] for field in own)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_field_that_a_newer_analysis_adds_is_an_attribute_and_harms_nothing(name):
    result = found(name, newer={"a": [1, 2]}, newest=[0.5, 0.25])
    assert result.newest == [0.5, 0.25]
    assert result.newer == {"a": [1, 2]}
    assert result.to_polars().height == found(name).to_polars().height
    assert result._repr_html_()
    assert repr(result)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_view_of_a_notebook_escapes_what_others_wrote(name):
    shown = found(name)._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == min(found(name).to_polars().height, 30) + 1


def test_a_result_is_drawn_by_itself_into_a_file_and_in_the_view_of_a_notebook(tmp_path):
    result = found("least-squares")
    shown = result.plot()._repr_svg_()
    assert result.plot(str(tmp_path / "plot.svg"))._repr_svg_() == shown
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8") == shown
    assert "bank.x1" in shown
    (panel,) = result.picture.panels
    seen = beyond_noise(result.coefficients, result.standard_errors)
    drawn = [name for name, is_seen in zip(result.feature_names_in_, seen, strict=True) if is_seen]
    assert list(panel.labels) == (drawn or list(result.feature_names_in_))
    assert result._repr_html_().count("<svg ") == len(result.picture.panels)


def test_a_result_with_nothing_to_draw_is_shown_in_a_notebook_without_a_picture():
    result = found("least-squares", coefficients=None, intercept=None, note="too noisy")
    assert "<svg " not in result._repr_html_()
    with pytest.raises(PictureError, match="too noisy"):
        result.plot()


def test_the_result_of_an_analysis_that_this_version_does_not_know_is_shown_by_its_fields():
    view = view_of("moments")
    job_json = json.dumps(json.loads(view.job_json) | {"analysis": "unheard-of"})
    view = replace(view, job_json=job_json, result_json=json.dumps({"answer": 42, "more": [1]}))
    result = result_of(view)
    assert type(result) is Result
    assert result.to_polars().rows() == [(42,)]
    assert result.privacy_lines == []


def test_a_job_without_a_result_has_no_result_object():
    with pytest.raises(ValueError, match="has no result: it is FAILED"):
        result_of(replace(view_of("moments"), state="FAILED", result_json=""))


def test_an_attribute_that_a_result_does_not_have_is_said_with_those_that_it_has():
    result = found("moments")
    with pytest.raises(AttributeError, match=r"result of moments has no .coef_.; it has .*moment"):
        result.coef_  # noqa: B018 -- the access fails
    assert not hasattr(result, "components_")


def test_changing_the_dictionary_does_not_change_the_result():
    result = found("moments")
    result.to_dict()["columns"].clear()
    assert result.columns


def test_components_project_rows_from_the_lower_bounds_where_nothing_is_said_of_a_mean():
    result = found("pca", mean=None, scale=None, origin=None)
    rows = own_rows()
    scaled = (rows.select(NAMES).to_numpy() + 1.0) / 4.0
    assert result.transform(rows) == pytest.approx(scaled @ result.components_.T)
    assert result.transform(rows.select(NAMES).to_numpy()) == pytest.approx(scaled @ result.components_.T)


def test_components_project_rows_from_the_middle_where_the_job_asked_for_it():
    view = view_of("low-rank")
    job = json.loads(view.job_json)
    job["parameters"]["origin"] = "middle"
    before = json.loads(view.result_json)
    stated = before.pop("origin")  # earlier versions did not state it
    assert stated == [-1.0] * len(NAMES)
    result = result_of(replace(view, job_json=json.dumps(job), result_json=json.dumps(before)))
    scaled = (own_rows().select(NAMES).to_numpy() + 1.0) / 4.0 - 0.5
    assert result.transform(own_rows()) == pytest.approx(scaled @ result.components_.T)


def test_components_project_rows_from_the_origin_that_a_result_states():
    result = found("low-rank", origin=[0.25] * 6)
    scaled = (own_rows().select(NAMES).to_numpy() - 0.25) / 4.0
    assert result.transform(own_rows()) == pytest.approx(scaled @ result.components_.T)


def test_components_project_rows_from_the_mean_and_by_the_scale_that_a_result_states():
    mean, scale = [0.5] * 6, [2.0] * 6
    result = found("pca", mean=mean, scale=scale, explained_variance=[3.0])
    expected = (own_rows().select(NAMES).to_numpy() - 0.5) / 2.0 @ result.components_.T
    assert result.transform(own_rows()) == pytest.approx(expected)
    assert result.mean_.tolist() == mean
    assert result.explained_variance_.tolist() == [3.0]
    assert result.to_polars()["mean"].to_list() == mean


def test_components_have_the_names_of_scikit_learn():
    result = found("pca")
    assert result.components_.shape == (1, 6)
    assert result.n_components_ == 1
    assert tuple(result.feature_names_in_) == NAMES
    assert np.linalg.norm(result.components_[0]) == pytest.approx(1.0)
    assert result.singular_values_ == pytest.approx(np.sqrt([result.eigenvalues[0]]))
    assert result.to_polars().columns[:2] == ["column", "component_1"]
    assert result.to_polars()["component_1"].to_list() == result.components_[0].tolist()


def test_what_was_not_centred_has_no_variance_and_no_mean():
    result = found("low-rank")
    assert not any(hasattr(result, name) for name in ("explained_variance_", "mean_", "explained_variance_ratio_"))


def test_least_squares_predicts_rows_within_their_bounds():
    result = found("least-squares")
    rows = own_rows()
    assert result.coef_.shape == (5,)
    features = rows.select(result.feature_names_in_.tolist())
    assert result.predict(rows) == pytest.approx(features.to_numpy() @ result.coef_ + result.intercept_)
    far = features.with_columns(polars.lit(1e9).alias("bank.x1"))
    at_the_bound = features.with_columns(polars.lit(3.0).alias("bank.x1"))
    assert result.predict(far).tolist() == result.predict(at_the_bound).tolist()


def test_a_regression_without_an_answer_has_no_coefficients():
    result = found("least-squares", coefficients=None, intercept=None, note="too noisy")
    assert not hasattr(result, "coef_")
    with pytest.raises(AttributeError, match="least-squares has no 'coef_'"):
        result.coef_  # noqa: B018 -- the access fails
    with pytest.raises(AttributeError, match="has no coefficients"):
        result.predict(own_rows())
    assert result.to_polars()["coefficient"].to_list() == [None] * 5


def test_logistic_regression_has_probabilities_that_follow_from_its_log_odds():
    result = found("logistic-regression", weights=[3.0, -1.0, 0.5, 0.0, -2.0], intercept=0.25)
    rows = own_rows()
    log_odds = rows.select(LABELLED).to_numpy() @ [3.0, -1.0, 0.5, 0.0, -2.0] + 0.25
    assert result.coef_.shape == (1, 5)
    assert result.intercept_.tolist() == [0.25]
    assert result.decision_function(rows) == pytest.approx(log_odds)
    assert result.predict_proba(rows)[:, 1] == pytest.approx(1 / (1 + np.exp(-log_odds)))
    assert result.predict_proba(rows).sum(axis=1) == pytest.approx(np.ones(5))
    assert result.predict(rows).tolist() == (log_odds > 0).astype(int).tolist()
    assert result.classes_.tolist() == [0, 1]


def test_probabilities_of_extreme_log_odds_do_not_overflow():
    result = found("logistic-regression", weights=[0.0] * 5, intercept=1e4)
    with np.errstate(over="raise"):
        assert result.predict_proba(own_rows(1)).tolist() == [[0.0, 1.0]]


def test_standard_errors_of_coefficients_are_part_of_the_table_where_a_result_states_them():
    errors = [0.1, 0.2, 0.3, 0.4, 0.5]
    result = found("logistic-regression", standard_errors=errors)
    assert result.standard_errors_.tolist() == errors
    assert result.to_polars()["standard_error"].to_list() == errors
    unknown = found("least-squares", standard_errors=None)
    assert not hasattr(unknown, "standard_errors_")
    assert set(unknown.to_polars()["standard_error"].to_list()) == {None}


def test_rows_belong_to_the_nearest_centre_of_scaled_columns():
    result = found("clustering", centres=[[-1.0] * 6, [3.0] * 6, [1.0] * 6], weights=[1.0, 2.0, 3.0])
    rows = np.array([[-1.0] * 6, [2.5] * 6, [0.9] * 6, [99.0] * 6])
    assert result.predict(rows).tolist() == [0, 1, 2, 1]
    assert result.cluster_centers_.shape == (3, 6)
    assert result.to_polars().columns == ["cluster", "rows", "counting_noise", *NAMES]
    assert result.to_polars()["rows"].to_list() == [1.0, 2.0, 3.0]


def test_counts_of_patterns_stand_beside_their_categories():
    result = found("pattern-count")
    table = result.to_polars()
    assert table.columns == ["bank.code", "hospital.code", "telco.code", "count", "standard_error"]
    assert result.counts_.shape == (4, 4, 4)
    row = table.row(27)
    assert row[:3] == (1, 2, 3)
    assert row[3] == result.counts_[1, 2, 3]
    assert row[4] == result.standard_errors_[1, 2, 3]


def test_counts_of_a_job_answer_how_long_rows_last_also_from_a_file_in_the_terminal(tmp_path):
    result = found("cross-table")  # its codes, 0 to 3, are two intervals without and with the event
    answer = result.answer("survival", time="bank.code", width=0.5)
    counts = result.counts_.sum((1, 2))
    first = 1 - counts[1] / counts.sum()
    assert answer.survival == pytest.approx([first, first * (1 - counts[3] / counts[2:].sum())])
    assert answer.until == [0.5, 1.0]
    result.save(tmp_path / "counts.json")
    asked = ["answer", str(tmp_path / "counts.json"), "survival", "--time", "bank.code", "--width", "0.5"]
    shown = CliRunner().invoke(app, [*asked, "--format", "json"])
    assert json.loads(shown.output) == answer.to_dict()
    large = [*asked[:2], "groups", "--columns", "bank.code", "--at-least", "-1000", "--format", "json"]
    assert json.loads(CliRunner().invoke(app, large).output)["table"]["count"] == pytest.approx(counts.tolist())
    median = [*asked[:2], "quantiles", "--value", "bank.code", "--q", "0.5", "--format", "json"]
    (middle,) = json.loads(CliRunner().invoke(app, median).output)["table"]["quantile"]
    assert counts[: int(middle)].sum() <= counts.sum() / 2 <= counts[: int(middle) + 1].sum()
    spent = [*asked[:2], "group-means", "--value", "bank.code", "--format", "json"]
    (mean,) = json.loads(CliRunner().invoke(app, spent).output)["table"]["mean"]
    assert mean == pytest.approx(np.average(range(4), weights=counts))
    assert f"moiety answer JOB QUESTION, at no further cost: {', '.join(QUESTIONS)}" in result.lines_of(result.fields)
    refused = CliRunner().invoke(app, [*asked[:2], "means"])
    assert (refused.exit_code, "there are survival, hazard-ratios" in refused.output) == (2, True)
    refused = CliRunner().invoke(app, asked[:3])
    assert "the question survival needs time" in refused.output


def test_counts_of_sums_answer_powers_and_quantiles_in_the_terminal(tmp_path):
    found("pattern-count").save(tmp_path / "counts.json")
    asked = ["answer", str(tmp_path / "counts.json"), "distribution", "--power", "0.5", "--quantile", "0.5"]
    refused = CliRunner().invoke(app, asked)
    assert (refused.exit_code, "count their sums (counted = 'sums')" in refused.output) == (2, True)
    saved = json.loads((tmp_path / "counts.json").read_text())
    of_sums = {"columns": ["x + y"], "categories": {"x + y": [0, 2]}, "labels": {}, "counts": [500.0, 300.0, 200.0]}
    saved["result"] |= {**of_sums, "standard_errors": [1.0] * 3}
    (tmp_path / "counts.json").write_text(json.dumps(saved))
    shown = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).output)
    assert shown["table"]["of"] == ["sum of x^0.5", "quantile 0.5", "entropy, bits"]
    assert shown["table"]["value"][0] == pytest.approx(300 + 200 * 2**0.5)
    assert shown["table"]["value"][1] in (0, 1)


def test_a_moment_is_one_row():
    result = found("moments")
    assert result.to_polars().height == 1
    assert float(result.standard_errors_) == result.standard_error


@pytest.mark.parametrize(("name", "called"), [("secure-sum", "sum"), ("secure-mean", "mean")])
def test_sums_and_means_are_a_row_per_column(name, called):
    table = found(name).to_polars()
    assert table["column"].to_list() == ["x0", "x1"]
    assert table[called].to_list() == getattr(found(name), called)
    assert "standard_error" in table.columns


def test_bins_stand_beside_their_edges():
    table = found("secure-histogram").to_polars()
    assert table.select("lower", "upper").rows() == [(None, 0.0), (0.0, 1.0), (1.0, 2.0), (2.0, None)]
    result = found("secure-histogram")
    assert table["count"].to_list() == [result.below, *result.counts_.tolist(), result.above]
    shown = found("distribution")
    assert shown.to_polars().columns == ["lower", "upper", "probability"], "smoothing has no interval"
    masked = found("distribution, masked").to_polars()
    assert masked.columns == ["lower", "upper", "probability", "at_least", "at_most"]
    lower, found_share, upper = (masked[name].to_numpy() for name in ("at_least", "probability", "at_most"))
    assert ((lower <= found_share) & (found_share <= upper)).all()
    assert shown.probabilities_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "called"), [("matrix-factorization", "item"), ("matrix-factorization, vertical", "user")]
)
def test_factors_are_in_units_of_ratings(name, called):
    result = found(name)
    assert result.offsets_ * result.units == pytest.approx(result.offsets)
    assert result.components_.shape == (1, len(result.offsets))
    assert result.components_[0] * result.units == pytest.approx([one[0] for one in result.vectors])
    assert result.to_polars().columns == [called, "offset", "factor_1"]


ASKED_OF_ROWS = ("pca", "low-rank", "least-squares", "logistic-regression", "clustering")
"""Jobs whose results take an analyst's rows."""


@pytest.mark.parametrize("name", ASKED_OF_ROWS)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: rows.drop("hospital.x0"), "have no column 'hospital.x0'; needed are "),
        (lambda rows: rows.with_columns(polars.lit(float("nan")).alias("telco.x0")), "missing, or is not a finite"),
        (lambda rows: rows.with_columns(polars.lit("many").alias("telco.x0")), "something else than numbers"),
        (lambda rows: np.zeros((2, 3)), "must have [56] columns: "),
        (lambda rows: np.zeros(6), "must have [56] columns: "),
        (lambda rows: {name: [1.0] * len(name) for name in NAMES}, "columns of different lengths"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_without_their_values(name, spoil, words):
    result = found(name)
    use = getattr(result, "predict", None) or result.transform
    with pytest.raises(RowsError, match=words) as raised:
        use(spoil(own_rows()))
    assert "many" not in str(raised.value)


def test_rows_need_a_plan_that_states_the_bounds():
    view = view_of("least-squares")
    with pytest.raises(RowsError, match=r"states no bounds of bank\.x1"):
        result_of(replace(view, plan_json="")).predict(own_rows())


def test_factors_have_the_names_of_their_items_in_text_table_and_picture(tmp_path):
    from analyses.job.ratings import digest_of_items

    view = view_of("matrix-factorization")
    fields = json.loads(view.result_json)
    names = [f"film {chr(97 + at)}" for at in range(len(fields["offsets"]))]
    fields["items_digest"] = digest_of_items(names)
    plain = result_of(replace(view, result_json=json.dumps(fields)))
    assert "film" not in "\n".join(plain.lines)
    (tmp_path / "items.txt").write_text("\n".join(names))
    result = plain.named(tmp_path / "items.txt")
    assert result.table()["item"] == names
    assert plain.table()["item"] == list(range(len(names)))
    best = names[int(np.argmax(result.offsets_))]
    assert f"  highest: {best} +" in "\n".join(result.lines)
    result.plot(tmp_path / "named.svg")
    assert best in (tmp_path / "named.svg").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="another list of items than the one that the owners declare, or in another"):
        plain.named(names[::-1])
    with pytest.raises(ValueError, match="no items that could be named"):
        result_of(view_of("matrix-factorization, vertical")).named(names)
