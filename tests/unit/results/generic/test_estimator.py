"""Results as estimators of scikit-learn and models of ONNX: they say what the result says, and refuse what it does."""

import pickle

import numpy as np
import onnxruntime
import pandas
import polars
import pytest
from analyst_results import found, own_rows
from releases import LABELS, plan_of, tables_of

from results.generic.own_rows import RowsError, clipped_rows
from results.kinds.least_squares import LeastSquaresResult

CENTRES = {"centres": [[-1.0] * 6, [3.0] * 6, [1.0] * 6], "weights": [1.0, 2.0, 3.0]}
MODELS = {
    "least-squares": {"coefficients": [0.5, -2.0, 1.0, 0.25, 3.0], "intercept": 7.0},
    "logistic-regression": {"weights": [3.0, -1.0, 0.5, 0.0, -2.0], "intercept": 0.25},
    "clustering": CENTRES,
    "pca": {"mean": [0.5] * 6, "scale": [2.0] * 6, "explained_variance": [3.0]},
    "low-rank": {},
}


def said_by(model, rows):
    return model.predict(rows) if hasattr(model, "predict") else model.transform(rows)


@pytest.mark.parametrize("name", MODELS)
def test_a_pickled_estimator_says_what_the_result_says_of_any_rows(name):
    result = found(name, **MODELS[name])
    model = pickle.loads(pickle.dumps(result.to_sklearn()))
    rows = own_rows(20)
    far = rows.with_columns(polars.lit(1e9).alias("bank.x1"), polars.lit(-5.0).alias("telco.x0"))
    for some in (rows, pandas.DataFrame(rows.to_dict(as_series=False)), rows.select(rows.columns[::-1]), far):
        assert said_by(model, some) == pytest.approx(said_by(result, some))
    plain = rows.select(list(result.feature_names_in_)).to_numpy()
    assert said_by(model, plain) == pytest.approx(said_by(result, plain))
    assert model[0].get_feature_names_out().tolist() == result.feature_names_in_.tolist()
    if name == "logistic-regression":
        assert model.predict_proba(far) == pytest.approx(result.predict_proba(far))
    with pytest.raises(RowsError, match=r"no column 'hospital\.x0'"):
        said_by(model, rows.drop("hospital.x0"))


@pytest.mark.parametrize("name", ["least-squares", "logistic-regression", "clustering", "pca"])
def test_a_model_of_onnx_says_the_same_of_encoded_rows(name):
    result = found(name, **MODELS[name])
    model = result.to_onnx()
    names = {one.key: one.value for one in model.metadata_props}["columns"].split("\n")
    assert names == result.feature_names_in_.tolist()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = own_rows(20).select(names).to_numpy()
    rows[3] = 100.0
    answers = session.run(None, {session.get_inputs()[0].name: rows.astype(np.float32)})
    assert np.squeeze(answers[0]) == pytest.approx(np.squeeze(said_by(result, rows)), abs=1e-4)
    if name == "logistic-regression":
        assert answers[1] == pytest.approx(result.predict_proba(rows), abs=1e-5)


def test_what_has_no_answer_is_no_estimator():
    with pytest.raises(AttributeError, match="has no coefficients"):
        found("least-squares", coefficients=None, intercept=None, note="too noisy").to_sklearn()
    with pytest.raises(AttributeError, match="has no cluster"):
        found("clustering", centres=[], weights=[], standard_errors=[]).to_sklearn()


NAMES = ("clinic.age", "clinic.age=missing", "clinic.risk=low", "clinic.risk=high", "clinic.risk=other", "shop.visits")
BOUNDS = dict.fromkeys(NAMES, (0.0, 1.0)) | {"clinic.age": (10.0, 100.0), "shop.visits": (-4.0, 4.0)}
SOURCES = {name: name.partition("=")[0] for name in NAMES if not name.startswith("shop")}
RAW = {"shop.visits": [1, 2, 9], "clinic.risk": ["low", " high", "unheard"], "clinic.age": [50.0, None, 5.0]}
ENCODED = [[50, 0, 1, 0, 0, 1], [10, 1, 0, 1, 0, 2], [10, 0, 0, 0, 1, 4]]


@pytest.mark.parametrize("frame", [dict, polars.DataFrame, pandas.DataFrame])
def test_raw_categories_and_gaps_are_encoded_as_their_owners_declare(frame):
    assert clipped_rows(frame(RAW), NAMES, BOUNDS, SOURCES).tolist() == ENCODED
    encoded = frame(dict(zip(NAMES, np.array(ENCODED, dtype=float).T, strict=True)))
    assert clipped_rows(encoded, NAMES, BOUNDS, SOURCES).tolist() == ENCODED


def test_numbers_and_truth_values_are_spelled_as_in_a_list():
    names = ("a.code=1", "a.code=2", "a.code=missing")
    bounds, sources = dict.fromkeys(names, (0.0, 1.0)), dict.fromkeys(names, "a.code")
    for codes in ([1, 2, None], [1.0, 2.0, float("nan")], pandas.Series([1, 2, None], dtype="Int64"), ["1", "2", ""]):
        assert clipped_rows({"a.code": codes}, names, bounds, sources).tolist() == np.eye(3).tolist()
    names = ("a.is=true", "a.is=false")
    bounds, sources = dict.fromkeys(names, (0.0, 1.0)), dict.fromkeys(names, "a.is")
    assert clipped_rows({"a.is": [True, np.bool_(False)]}, names, bounds, sources).tolist() == np.eye(2).tolist()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"clinic.risk": None}, r"no column 'clinic\.risk=low'; needed are 'clinic\.risk' or clinic\.risk=low"),
        ({"shop.visits": ["many"] * 3}, r"column 'shop\.visits' holds something else than numbers"),
        ({"shop.visits": [None, 1, 2]}, r"column 'shop\.visits' holds a value that is missing"),
        ({"shop.visits": [[1], [2], [3]]}, r"column 'shop\.visits' holds something else than a number in each row"),
        ({"shop.visits": [1, 2]}, "columns of different lengths"),
        (
            {"clinic.risk=low": [2] * 3, "clinic.risk=high": [0] * 3, "clinic.risk=other": [0.5] * 3},
            "'clinic.risk' are",
        ),
        ({"clinic.risk=low": [1] * 3, "clinic.risk=high": [1] * 3, "clinic.risk=other": [0] * 3}, "'clinic.risk' are"),
        ({"clinic.age=missing": [1, 1, 0], "clinic.age": [50, 10, 10]}, "'clinic.age' are not encoded as its owner"),
    ],
)
def test_columns_that_are_encoded_otherwise_are_refused_by_name(changes, text):
    rows = {name: values for name, values in (RAW | changes).items() if values is not None}
    with pytest.raises(RowsError, match=text) as raised:
        clipped_rows(rows, NAMES, BOUNDS, SOURCES)
    assert "many" not in str(raised.value)


def test_a_value_that_an_owner_does_not_list_is_refused_without_being_shown():
    names = [name for name in NAMES if not name.endswith("other")]
    with pytest.raises(
        RowsError, match=r"'clinic\.risk' holds a value that its owner does not list; there are low, high"
    ):
        clipped_rows(RAW, names, BOUNDS, SOURCES)
    with pytest.raises(RowsError) as raised:
        clipped_rows(RAW, names, BOUNDS, SOURCES)
    assert "unheard" not in str(raised.value)


def test_a_result_knows_from_its_plan_which_columns_are_one_category():
    tables = tables_of(200)
    plan = plan_of(tables)
    features = ["clinic.age", *(f"clinic.risk={label}" for label in LABELS)]
    fields = {
        "analysis": "least-squares",
        "features": features,
        "coefficients": [1.0, 10.0, 20.0, 30.0],
        "intercept": 5.0,
    }
    result = LeastSquaresResult(plan.job, fields, plan.model_dump(mode="json"))
    rows = {"clinic.age": [50.0, 200.0], "clinic.risk": ["high", "low"]}
    assert result.predict(rows).tolist() == [85.0, 115.0]
    assert result.to_sklearn().predict(rows) == pytest.approx([85.0, 115.0])
