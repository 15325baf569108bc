"""Lines on products and sums of columns, and with weights, beside those of statsmodels; and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from moment_jobs import table_of
from releases import LABELS, plan_of, released

from analyses.job.schema import Table, columns_called
from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.questions import ask

N_ROWS = 4000
OF_BANK = ("income", "age", "weight", "age^2", "age^3", "age*income", "age*weight", "income*weight", "age^2*weight")


def with_products(table, names):
    """The table with products of its columns besides."""
    columns = columns_called(table.schema.columns, names)
    own = {column.name: table.values[:, at] for at, column in enumerate(table.schema.columns)}
    values = [np.prod([own[one] for one in column.factors or (column.name,)], axis=0) for column in columns]
    return Table(table.schema.model_copy(update={"columns": columns}), np.column_stack(values), table.ids_digest)


def tables_of(seed, n_rows=N_ROWS, of_bank=OF_BANK):
    rng = np.random.default_rng(seed)
    age, weight = np.clip(rng.normal(40, 12, n_rows), 0, 100), rng.uniform(0.5, 2, n_rows)
    owns, risk, years = rng.random(n_rows) < 0.4, rng.choice(3, n_rows, p=[0.5, 0.3, 0.2]), rng.integers(0, 90, n_rows)
    mean = 5 + 0.3 * age - 0.004 * age**2 + 2 * (risk == 1) + 3 * (risk == 2) + 0.05 * age * owns
    income = np.clip(mean + rng.normal(0, 3, n_rows), -60, 80)
    bank = table_of("bank", {"income": (-60, 80, income), "age": (0, 100, age), "weight": (0.5, 2, weight)})
    kinds = {f"risk={label}": (0, 1, (risk == i).astype(float)) for i, label in enumerate(LABELS)}
    clinic = table_of("clinic", {"owns": (0, 1, owns.astype(float)), **kinds})
    bins = {
        f"years={a}..{b}": (0, 1, ((years >= a) & (years < b)).astype(float)) for a, b in ((0, 20), (20, 60), (60, 90))
    }
    rows = {"age": age, "weight": weight, "owns": owns, "risk": risk, "income": income, "years": years}
    return {"bank": with_products(bank, of_bank), "clinic": clinic, "shop": table_of("shop", bins)}, rows


@pytest.fixture(scope="module")
def case():
    tables, rows = tables_of(1)
    return released(tables, plan_of(tables, epsilon=1e4)), rows


def of_rows(rows, columns, weights=None):
    design = np.column_stack([*columns, np.ones(N_ROWS)])
    return sm.WLS(rows["income"], design, 1.0 if weights is None else weights).fit()


LINES = {
    "powers": (["bank.age", "bank.age^2"], lambda r: [r["age"], r["age"] ** 2]),
    "of two owners": (
        ["bank.age", "clinic.owns", "bank.age*clinic.owns"],
        lambda r: [r["age"], r["owns"], r["age"] * r["owns"]],
    ),
    "with a category": (
        ["bank.age", "clinic.risk", "clinic.risk*bank.age"],
        lambda r: [r["age"], *(r["risk"] == k for k in (1, 2)), *((r["risk"] == k) * r["age"] for k in (1, 2))],
    ),
    "sums": (
        ["clinic.risk=middle + clinic.risk=high", "2*bank.age - 3*bank.weight"],
        lambda r: [r["risk"] > 0, 2 * r["age"] - 3 * r["weight"]],
    ),
    "middles": (
        ["mid(shop.years)", "mid(shop.years)^2"],
        lambda r: [m := np.select([r["years"] < 20, r["years"] < 60], [10.0, 40.0], 75.0), m**2],
    ),
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_on_terms_is_that_of_the_rows(case, what):
    release, rows = case
    names, columns = LINES[what]
    expected, found = of_rows(rows, columns(rows)), ask(release, "regress", label="bank.income", columns=names)
    assert found.table["per_unit"] == pytest.approx(expected.params.tolist(), rel=1e-5)
    assert found.table["chance_error"] == pytest.approx(expected.bse.tolist(), rel=0.002)
    assert found.about["r_squared"] == pytest.approx(expected.rsquared, abs=0.005)
    assert min(found.table["noise_error"]) > 0


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["clinic.risk"], lambda r: [r["risk"] == 1, r["risk"] == 2]),
        (["bank.age"], lambda r: [r["age"]]),
        (["clinic.owns"], lambda r: [r["owns"]]),
    ],
)
def test_a_weighted_line_is_that_of_the_rows(case, names, columns):
    release, rows = case
    expected = of_rows(rows, columns(rows), rows["weight"])
    found = ask(release, "regress", label="bank.income", columns=names, weight="bank.weight")
    assert found.table["per_unit"] == pytest.approx(expected.params.tolist(), rel=1e-5)
    weights = rows["weight"]
    of_weights = np.sqrt(N_ROWS * (weights**2).sum()) / weights.sum()  # as weights that go with nothing raise errors
    assert found.table["chance_error"] == pytest.approx((expected.bse * of_weights).tolist(), rel=0.001)
    robust = expected.get_robustcov_results("HC1").bse  # the sandwich, which supposes nothing
    assert found.table["chance_error"] == pytest.approx(robust.tolist(), rel=0.12)


@pytest.mark.parametrize("weight", [None, "bank.weight"])
def test_errors_by_noise_are_those_of_many_releases(weight):
    tables, _ = tables_of(2, 40_000)
    columns = ["bank.age", "clinic.owns", "bank.age*clinic.owns"] if weight is None else ["clinic.risk"]
    given = {"label": "bank.income", "columns": columns, "weight": weight}
    quiet, rng = released(tables, plan_of(tables, epsilon=20.0)), np.random.default_rng(5)
    exact, found = np.array(ask(quiet, "regress", **given).table["per_unit"]), []
    for _ in range(60):
        draw = rng.normal(size=quiet.matrix.shape)
        noisy = replace(quiet, matrix=quiet.matrix + quiet.deviation * (draw + draw.T) / np.sqrt(2))
        found.append(ask(noisy, "regress", **given).table)
    off = np.array([one["per_unit"] for one in found]) - exact
    errors = np.array([one["noise_error"] for one in found])
    assert np.sqrt((off**2).mean(axis=0)) / errors.mean(axis=0) == pytest.approx(1, abs=0.3)
    assert 0.95 - 3 * np.sqrt(0.95 * 0.05 / 60) < np.mean(np.abs(off) <= 1.96 * errors) <= 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"columns": ["clinic.owns*shop.years*bank.age"]}, "factors of 3 owners"),
        ({"columns": ["bank.weight^2"]}, r"sum over the rows of bank.weight\^4.*names bank.weight\^2"),
        ({"columns": ["clinic.risk", "clinic.owns"], "weight": "bank.weight"}, r"names clinic.owns\*risk=middle"),
        ({"columns": ["clinic.owns", "clinic.owns^2"]}, "are the same: a yes or no is its own square"),
        ({"columns": ["clinic.risk=low*clinic.risk=high"]}, "is 0 in all rows"),
        ({"columns": ["bank.age*bank.income"]}, "cannot explain itself: leave out"),
        ({"columns": ["bank.wage^2"]}, "has no column 'bank.wage'"),
        ({"columns": ["inf*bank.age"]}, "inf is no factor"),
        ({"columns": ["mid(clinic.risk)"]}, "no category whose values are intervals"),
        ({"columns": ["clinic.risk + bank.age"]}, "is several columns"),
        ({"columns": ["bank.age"], "weight": "bank.income"}, "may be negative by its bounds"),
        ({"columns": ["bank.age"], "weight": "bank.wage"}, "no column 'bank.wage'"),
        ({"columns": ["bank.age^2", "2*bank.age"], "ridge": 1.0}, "a ridge is for columns as they were released"),
    ],
)
def test_what_the_release_cannot_tell_is_refused_with_what_would_help(case, given, words):
    with pytest.raises(AnswerError, match=words):
        ask(case[0], "regress", label="bank.income", **given)


@pytest.mark.parametrize(
    ("products", "given"),
    [
        (["age^2"], {"columns": ["bank.age", "bank.age^2"]}),
        (["age^2", "age*income"], {"columns": ["bank.age", "clinic.risk", "bank.age*clinic.risk"]}),
        (["income*weight"], {"columns": ["clinic.risk"], "weight": "bank.weight"}),
        (["income*weight", "age*weight"], {"columns": ["bank.age", "clinic.risk"], "weight": "bank.weight"}),
    ],
)
def test_the_products_that_the_page_names_are_all_that_it_takes(products, given):
    """See the table of `docs/analyses/second-moments.md`."""
    for missing in (None, *products):
        named = ["income", "age", "weight", *(one for one in products if one != missing)]
        tables, _ = tables_of(3, 500, named)
        release = released(tables, plan_of(tables, epsilon=1e6))
        if missing is None:
            assert None not in ask(release, "regress", label="bank.income", **given).table["per_unit"]
            continue
        with pytest.raises(AnswerError, match="the release "):
            ask(release, "regress", label="bank.income", **given)


def test_products_are_no_features_unless_they_are_named_and_no_part_of_a_synthetic_table(case):
    plain = ["bank.age", "bank.weight", "clinic.owns", "clinic.risk=middle", "clinic.risk=high"]
    found = ask(case[0], "regress", label="bank.income").table["column"]
    assert [one for one in found if not one.startswith("shop.")] == [*plain, "intercept"]
    rows = ask(case[0], "synthetic", rows=50)
    assert [one.source.name for one in rows.drawn] == [
        "bank.income", "bank.age", "bank.weight", "clinic.owns", "clinic.risk", "shop.years"
    ]  # fmt: skip


def test_noise_that_hides_a_term_is_told(case):
    hidden = replace(case[0], deviation=case[0].deviation * 1e5)
    with pytest.raises(AnswerError, match="only noise"):
        ask(hidden, "regress", label="bank.income", columns=["bank.age", "bank.age*clinic.owns"])
    with pytest.raises(AnswerError, match="does not vary beyond the noise"):
        ask(
            replace(case[0], deviation=case[0].deviation * 3e3),
            "regress",
            label="bank.income",
            columns=["bank.age", "bank.age*clinic.owns"],
        )


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("regress", {"label": "bank.income", "columns": ["clinic.risk"], "weight": "bank.weight"}),
        ("contrasts", {"value": "bank.income", "by": "clinic.risk"}),
        ("group-means", {"value": "bank.income", "by": "clinic.risk"}),
    ],
)
def test_a_column_that_is_the_same_in_all_rows_has_no_error_of_0(name, given):
    """The noise hides whether it is: what a line leaves is no less than that."""
    tables, _ = tables_of(4, 500)
    bank = tables["bank"]
    values = bank.values.copy()
    values[:, 0] = 20.0
    for at, column in enumerate(bank.schema.columns):
        if "income" in column.factors:
            (other,) = (one for one in column.factors if one != "income")
            values[:, at] = 20.0 * values[:, [one.name for one in bank.schema.columns].index(other)]
    changed = {**tables, "bank": replace(bank, values=values)}
    found = ask(released(changed, plan_of(changed, epsilon=1e4)), name, **given)
    assert min(found.table["chance_error"]) > 0
    assert None not in found.table["interval"]


GROUPS = {
    "two yes or no": (("owns", "late", "owns*late"), "clinic.owns*clinic.late"),
    "a category and a yes or no": (("risk", "risk*owns"), "clinic.owns*clinic.risk"),
    "all three": (("risk", "risk*owns", "risk*late", "risk*owns*late"), "clinic.risk*clinic.owns*clinic.late"),
}


@pytest.mark.parametrize("what", GROUPS)
def test_groups_of_several_columns_of_an_owner_are_those_of_the_rows(what):
    tables, rows = tables_of(2, of_bank=("income",))
    late = (np.random.default_rng(3).random(N_ROWS) < 0.3).astype(float)
    clinic = tables["clinic"]
    more = table_of("clinic", {"late": (0, 1, late)}).schema.columns
    columns = [
        one.model_copy(update={"group": "risk"}) if one.name.startswith("risk=") else one
        for one in (*clinic.schema.columns, *more)
    ]
    schema = clinic.schema.model_copy(update={"columns": tuple(columns)})
    whole = Table(schema, np.column_stack([clinic.values, late]), clinic.ids_digest)
    brought, by = GROUPS[what]
    release = released(changed := {**tables, "clinic": with_products(whole, brought)}, plan_of(changed, epsilon=1e4))
    values = {"owns": np.where(rows["owns"], "yes", "no"), "late": np.where(late, "yes", "no")}
    values["risk"] = np.array(LABELS)[rows["risk"]]
    found = ask(release, "group-means", value="bank.income", by=by).table
    keys = [one.partition(".")[2] for one in by.split("*")]
    for at in range(len(found["mean"])):
        mine = np.logical_and.reduce([values[key] == found[f"clinic.{key}"][at] for key in keys])
        assert found["rows"][at] == pytest.approx(mine.sum(), abs=1e-6)
        assert found["mean"][at] == pytest.approx(rows["income"][mine].mean())
    assert len(found["mean"]) == np.prod([len(set(values[key])) for key in keys])


@pytest.mark.parametrize(
    ("by", "text"),
    [
        (
            "clinic.owns*clinic.risk",
            "no column for each combination of clinic.owns, clinic.risk: .*product, owns\\*risk",
        ),
        ("bank.age*clinic.risk", "'bank.age' is a number; name a category"),
        ("clinic.risk*bank.none", "no column 'bank.none'"),
        ("clinic.risk*clinic.risk", "is named twice"),
    ],
)
def test_groups_that_the_release_does_not_tell_are_refused(case, by, text):
    with pytest.raises(AnswerError, match=text):
        ask(case[0], "group-means", value="bank.income", by=by)
