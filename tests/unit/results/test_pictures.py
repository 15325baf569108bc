"""The picture of every analysis, over a result of every kind of job: names, values and stated errors are in it."""

import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from analyst_results import view_of
from matplotlib.image import imread

from analyses.job.forecast import NORMAL_95
from analyses.registry import ANALYSES
from results.drawing.chart import Cells, PictureError, Rows, Spectrum, Steps
from results.drawing.file import write
from results.drawing.svg import elements_of, svg_of
from results.generic.result import Result
from results.registry import RESULTS, picture_of

SVG = "{http://www.w3.org/2000/svg}"
WITHOUT_PICTURE: set[str] = set()
"""Names of analyses on offer whose results have none."""

HOSTILE = "</title><script>alert('&amp;')</script>$x^{$\x07\"'"


def result_of(name, **changes):
    return json.loads(view_of(name).result_json) | changes


def names_in(result):
    """The names of columns, parties, items and directions that a reader needs."""
    if "edges" in result:
        return ["rows"]
    if result["analysis"] == "matrix-factorization":
        return ["direction 1"]
    return result.get("features") or result.get("columns", ["rows"])


def hostile(value):
    """A result all of whose texts are hostile, except for names of fields."""
    if isinstance(value, dict):
        return {key if re.fullmatch("[a-z_]+", key) else key + HOSTILE: hostile(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_every_analysis_on_offer_has_a_picture():
    assert {name for name in ANALYSES if RESULTS[name].panels_of in (Result.panels_of,)} == WITHOUT_PICTURE


@pytest.mark.parametrize("name", sorted(set(ANALYSES) - WITHOUT_PICTURE))
def test_a_result_of_every_analysis_becomes_a_file_with_its_names(name, tmp_path):
    result = result_of(name)
    picture = picture_of(result, "A title & more")
    write(picture, tmp_path / "plot.svg")
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    texts = " ".join(root.itertext())
    assert root.tag == f"{SVG}svg"
    assert "A title & more" in texts
    assert [wanted for wanted in names_in(result) if wanted not in texts] == []
    assert root.get("aria-label") == picture.alternative
    assert [wanted for wanted in names_in(result) if wanted not in picture.alternative] == []
    assert len(elements_of(picture)) == len(picture.panels)


@pytest.mark.parametrize("name", sorted(set(ANALYSES) - WITHOUT_PICTURE))
def test_a_result_of_every_analysis_becomes_a_png_of_reasonable_size(name, tmp_path):
    write(picture_of(result_of(name)), tmp_path / "plot.png")
    height, width, _ = imread(tmp_path / "plot.png").shape
    assert 200 < height < 1500
    assert 500 < width < 2500


@pytest.mark.parametrize("name", sorted(set(ANALYSES) - WITHOUT_PICTURE))
def test_names_of_others_are_text_and_nothing_else(name):
    result = hostile(result_of(name)) | {"analysis": name}
    picture = picture_of(result, HOSTILE)
    text = svg_of(picture)
    root = ElementTree.fromstring(text)  # which refuses what is no XML
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "g", "text", "title", "rect", "line", "path", "circle",
    }  # fmt: skip
    assert "<script" not in text


@pytest.mark.parametrize("name", ["clustering", "distribution", "pca"])  # all kinds of panels
def test_names_of_others_are_no_formulas_in_a_png(name, tmp_path):
    write(picture_of(hostile(result_of(name)) | {"analysis": name}, HOSTILE), tmp_path / "plot.png")


STATED = {
    "pattern-count": "standard_errors",
    "secure-sum": "standard_errors",
    "secure-histogram": "standard_errors",
    "moments": "standard_error",
}


@pytest.mark.parametrize("name", STATED)
def test_error_bars_are_95_percent_intervals_of_the_stated_standard_errors(name):
    result = result_of(name)
    (panel,) = picture_of(result).panels
    stated = np.array(result[STATED[name]], dtype=float).ravel()
    values = np.array(result.get("counts", result.get("sum", result.get("moment"))), dtype=float).ravel()
    found = {value: (high - low) / 2 for value, (low, high) in zip(panel.values, panel.intervals, strict=True)}
    for value, half in found.items():
        errors = stated[values == value]
        assert errors.size > 0
        assert math.isclose(half, NORMAL_95 * errors[0], rel_tol=1e-6, abs_tol=1e-12)
    assert min(found.values()) > 0


def test_coefficients_have_bars_where_errors_are_stated_and_none_elsewhere():
    plain = result_of("least-squares")
    errors = [0.1, 0.2, 0.3, 0.4, 0.5]
    changed = {"standard_errors": errors, "intercept_standard_error": 0.25, "intercept": 1.0}
    (without,) = picture_of(plain | {"standard_errors": None}).panels
    (panel,) = picture_of(plain | changed).panels
    assert without.intervals == ()
    assert panel.labels == tuple(plain["features"])
    assert panel.values == tuple(plain["coefficients"])
    assert [high - value for value, (_, high) in zip(panel.values, panel.intervals, strict=True)] == pytest.approx(
        [NORMAL_95 * error for error in errors]
    )
    assert panel.note[0] == "Intercept: 1.00 ± 0.49."


def test_the_picture_of_a_pca_shows_noise_estimates_and_their_intervals():
    result = result_of("pca")
    spectrum, loadings = picture_of(result).panels
    assert isinstance(spectrum, Spectrum)
    assert spectrum.edge == pytest.approx(result["noise_edge"] / result["n_rows"])
    assert spectrum.values == pytest.approx([value / result["n_rows"] for value in result["eigenvalues"]])
    assert spectrum.estimates == tuple(result["explained_variance"])
    assert spectrum.intervals == tuple(ends and tuple(ends) for ends in result["explained_variance_interval"])
    assert None in spectrum.intervals
    assert loadings.labels == tuple(result["columns"])
    assert loadings.values == tuple(result["components"][0])


def test_singular_values_are_roots_of_eigenvalues_and_0_of_negative_ones():
    result = result_of("low-rank", eigenvalues=[16.0, 4.0, 1.0, 0.0, -1.0, -2.0], noise_level=9.0)
    spectrum, _ = picture_of(result).panels
    assert (spectrum.values, spectrum.edge) == ((4.0, 2.0, 1.0, 0.0, 0.0, 0.0), 3.0)


def test_eigenvalues_that_a_logarithmic_axis_cannot_show_are_counted():
    spectrum, _ = picture_of(result_of("pca", eigenvalues=[3.0, 2.0, 1.0, 0.5, 0.0, -1.0])).panels
    assert spectrum.note == ("2 of them are not positive, by noise, and not drawn.",)


def test_centres_stand_with_the_names_of_columns_and_the_weights_of_clusters():
    errors = [1.0, 2.0, 0.5]
    result = result_of("clustering", weights=[97.8, 108.7, 93.6], standard_errors=errors, note="it is noise")
    table, sizes = picture_of(result).panels
    assert isinstance(table, Cells)
    assert table.labels == tuple(result["columns"])
    assert table.heads == ("cluster 1\n98 rows", "cluster 2\n109 rows", "cluster 3\n94 rows")
    assert [list(row) for row in table.values] == np.array(result["centres"]).T.tolist()
    assert sizes.values == (97.8, 108.7, 93.6)
    assert sizes.intervals == ()  # the noise of counting alone is no interval of a number of rows
    assert sizes.note == ("It is noise.",)


def test_a_density_is_probability_by_width_and_so_are_its_intervals():
    changes = {"edges": [0.0, 2.0, 6.0], "probabilities": [0.5, 0.5], "quantiles": [], "mean": 1.0}
    known = {"mean": [0.9, 1.1], "probabilities": [[0.4, 0.6], [0.0, 1.1]]}
    (panel,) = picture_of(result_of("distribution", **changes, intervals=known)).panels
    assert isinstance(panel, Steps)
    assert panel.values == (0.25, 0.125)
    assert panel.intervals == (pytest.approx((0.2, 0.3)), pytest.approx((0.0, 0.275)))


def test_offsets_of_items_stand_from_the_highest_to_the_lowest():
    result = result_of("matrix-factorization")
    offsets, vectors = picture_of(result).panels
    best = int(np.argmax(result["offsets"]))
    assert offsets.labels[0] == f"item {best}"
    assert offsets.values[0] == result["offsets"][best] / result["units"]
    assert list(offsets.values) == sorted(offsets.values, reverse=True)
    assert vectors.values[0] == pytest.approx(np.sqrt(np.mean(np.square(np.array(result["vectors"]) / 4096))))


def test_of_many_columns_the_largest_are_shown_and_it_is_said_how_many_are_not():
    names = [f"hospital.measurement_of_something_long_{at}" for at in range(40)]
    result = result_of(
        "logistic-regression by gradients", columns=names, weights=list(range(40)), bounds=[[0.0, 1.0]] * 40
    )
    (panel,) = picture_of(result).panels
    assert panel.labels == tuple(names[15:])
    assert panel.note[-1] == "The 25 largest of 40 columns are shown; 15 are left out."


def test_what_is_largest_depends_on_errors_or_widths_where_they_are_known():
    names = [f"bank.x{at}" for at in range(30)]
    weights = [1.0] * 30
    bounds = [[0.0, 100.0 if at < 25 else 1.0] for at in range(30)]
    plain = result_of("logistic-regression by gradients", columns=names, weights=weights, bounds=bounds)
    errors = [10.0] * 5 + [0.1] * 25
    assert picture_of(plain).panels[0].labels == tuple(names[:25])
    assert picture_of(plain | {"standard_errors": errors}).panels[0].labels == tuple(names[5:])


def test_counts_of_patterns_stand_in_the_order_of_the_jobs_columns():
    result = {
        "analysis": "pattern-count",
        "columns": ["zoo.kind", "bank.code"],
        "categories": {"bank.code": [0, 2], "zoo.kind": [5, 6]},
        "counts": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        "standard_errors": [[0.05] * 3] * 2,
        "method": "mpc",
        "privacy": {"parameters": {"party_mu": 1}},
    }
    (panel,) = picture_of(result).panels
    assert isinstance(panel, Rows)
    assert dict(zip(panel.labels, panel.values, strict=True)) == {
        "zoo.kind 5, bank.code 0": 1.0,
        "zoo.kind 5, bank.code 1": 2.0,
        "zoo.kind 5, bank.code 2": 3.0,
        "zoo.kind 6, bank.code 0": 4.0,
        "zoo.kind 6, bank.code 1": 5.0,
        "zoo.kind 6, bank.code 2": 6.0,
    }
    assert panel.labels[1] == "zoo.kind 5, bank.code 1"


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (
            "least-squares",
            {"coefficients": None, "intercept": None, "note": "too noisy"},
            "no answer to draw: too noisy",
        ),
        (
            "logistic-regression",
            {"columns": ["a.x"], "weights": [0.0], "intercept": 0.0, "standard_errors": None, "note": "only noise"},
            "no answer to draw: only noise",
        ),
        ("secure-mean", {"mean": None}, "the weights do not add up"),
        ("clustering", {"centres": []}, "no cluster"),
        ("moments", {"moment": float("nan")}, "nothing to draw"),
        ("pca", {"components": []}, "not as this version writes it"),
        ("pca", {"eigenvalues": None}, "not as this version writes it"),
        ("moments", {"analysis": "unheard-of"}, "there is no analysis 'unheard-of' here"),
    ],
)
def test_a_result_without_anything_to_draw_says_so(name, changes, words):
    with pytest.raises(PictureError, match=re.escape(words)):
        picture_of(result_of(name, **changes))


def test_an_analysis_without_a_picture_says_so(monkeypatch):
    monkeypatch.setitem(RESULTS, "moments", Result)
    with pytest.raises(PictureError, match="results of moments have no picture"):
        picture_of(result_of("moments"))


DEVICES = {"analysis": "secure-sum", "record": "steps", "survivors": [f"d{i}" for i in range(200)]}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"sum": [3.0], "standard_errors": [1.0]}, ["Sum of steps over all members", "200 members"]),
        ({"mean": [3.0, 4.0], "standard_errors": [1.0, 1.0], "analysis": "secure-mean"}, ["entry 1", "entry 2"]),
        (
            {"counts": [3, 4], "edges": [0, 1, 2], "standard_errors": [1.0, 1.0], "analysis": "secure-histogram"},
            ["Numbers of steps in each bin", "200 members"],
        ),
    ],
)
def test_answers_of_devices_are_drawn_with_their_record_and_the_number_of_members(answer, words, tmp_path):
    write(picture_of(DEVICES | answer), tmp_path / "plot.svg")
    texts = " ".join(ElementTree.parse(tmp_path / "plot.svg").getroot().itertext())
    assert [one for one in words if one not in texts] == []
