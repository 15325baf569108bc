"""A synthetic table beside the rows that a release is of: marginals, relations, and what it does not know."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from moment_jobs import table_of
from releases import LABELS, joint_of, plan_of, released, tables_of

from analyses.kept_moments.questions import ask
from analyses.kept_moments.synthetic import mixture as fitting
from analyses.kept_moments.synthetic.mixture import _Misfit, fit
from analyses.kept_moments.synthetic.rows import draw_rows
from analyses.kept_moments.synthetic.sources import Layout, bin_of
from results.generic.answer import ReleaseAnswer
from results.generic.synthetic import SyntheticTable

N_ROWS = 3000
GOES = ("no", "seldom", "often", "daily")


def with_group(table, group):
    columns = [c.model_copy(update={"group": group}) if "=" in c.name else c for c in table.schema.columns]
    return replace(table, schema=table.schema.model_copy(update={"columns": tuple(columns)}))


def categories(n_rows, seed=0):
    """Three categories of two owners, two of which follow the same hidden group, and a yes or no."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n_rows) < 0.4
    goes = np.where(hidden, rng.choice(4, n_rows, p=[0.1, 0.1, 0.3, 0.5]), rng.choice(4, n_rows, p=[0.6, 0.3, 0.1, 0]))
    bins = np.where(rng.random(n_rows) < 0.8, np.minimum(goes, 2), rng.choice(3, n_rows))
    owns = (rng.random(n_rows) < 0.2 + 0.6 * hidden).astype(float)
    codes = {"shop.goes": (goes, GOES), "clinic.age": (bins, ("0..18", "18..65", "65..100"))}
    tables = {"bank": table_of("bank", {"owns": (0, 1, owns)})}
    for name, (code, labels) in codes.items():
        party, column = name.split(".")
        values = {f"{column}={label}": (0, 1, (code == at).astype(float)) for at, label in enumerate(labels)}
        tables[party] = with_group(table_of(party, values), column)
    return tables


@pytest.fixture(autouse=True, scope="module")
def short_fits():
    """Fits of few steps: so few columns need no more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "MAX_STEPS", 300)
        yield


@pytest.fixture(scope="module")
def clear(short_fits):
    """Tables and an answer whose release has next to no noise."""
    tables = categories(N_ROWS)
    return tables, ask(released(tables, plan_of(tables, 100.0)), "synthetic", rows=N_ROWS)


def drawn_joint(answer):
    """Columns of the synthetic table as those of the release."""
    found = {}
    for column in answer.drawn:
        if column.source.kind == "yes/no":
            found[column.source.name] = 1 - column.states
        else:
            for place, label in enumerate(column.source.labels):
                found[f"{column.source.name}={label}"] = column.states == place
    return found


def test_marginals_of_one_and_of_two_columns_are_those_of_the_rows(clear):
    tables, answer = clear
    joint, found = joint_of(tables), drawn_joint(answer)
    assert set(found) == set(joint)
    for name, values in joint.items():
        assert found[name].mean() == pytest.approx(values.mean(), abs=0.01)
    for one, other in combinations(joint, 2):
        assert (found[one] * found[other]).mean() == pytest.approx((joint[one] * joint[other]).mean(), abs=0.015)
    pairs = [at for at, other in enumerate(answer.table["with"]) if other is not None]
    assert max(answer.table["distance"]) < 0.03
    assert [answer.table["is_seen"][at] for at in pairs] == [True, True, True]


def test_stated_distances_are_those_of_the_tables_rows(clear):
    tables, answer = clear
    joint, found = joint_of(tables), drawn_joint(answer)
    names = [[n for n in joint if n.startswith(source)] for source in ("shop.goes", "clinic.age")]
    off = [(found[a] * found[b]).mean() - (joint[a] * joint[b]).mean() for a in names[0] for b in names[1]]
    pairs = list(zip(answer.table["column"], answer.table["with"], strict=True))
    assert answer.table["distance"][pairs.index(("shop.goes", "clinic.age"))] == pytest.approx(
        np.abs(off).sum() / 2, abs=2e-4
    )


def test_the_stated_noise_is_the_mean_distance_of_releases_from_the_rows():
    tables = categories(500)
    plan = plan_of(tables, 2.0)
    true = Layout.of(released(tables, plan))
    left, right = (true.states(at) for at in (1, 2))
    exact = left @ true.measured @ right.T / 500
    answer = ask(released(tables, plan), "synthetic", rows=10)
    pairs = list(zip(answer.table["column"], answer.table["with"], strict=True))
    stated = answer.table["noise"][pairs.index(tuple(true.sources[at].name for at in (1, 2)))]
    rng = np.random.default_rng(4)
    off = [
        np.abs(left @ Layout.of(released(tables, plan, rng)).measured @ right.T / 500 - exact).sum() / 2
        for _ in range(100)
    ]
    assert stated == pytest.approx(np.mean(off), rel=0.1)


def test_numbers_keep_mean_deviation_and_correlations():
    tables = tables_of(N_ROWS)
    joint = joint_of(tables)
    answer = ask(released(tables, plan_of(tables, 1000.0)), "synthetic", rows=20_000, label="bank.income")
    drawn = {column.source.name: column.values for column in answer.drawn}
    numbers = ("bank.income", "clinic.age", "shop.visits")
    for name in numbers:
        assert drawn[name].mean() == pytest.approx(joint[name].mean(), abs=0.05 * joint[name].std())
        assert drawn[name].std() == pytest.approx(joint[name].std(), rel=0.05)
    found = np.corrcoef(np.stack([drawn[name] for name in numbers]))
    assert found == pytest.approx(np.corrcoef(np.stack([joint[name] for name in numbers])), abs=0.04)
    assert answer.about["correlation_difference"] < 0.02
    of_release, of_rows = answer.about["r_squared"]
    assert of_rows == pytest.approx(of_release, abs=0.05)
    assert answer.about["classification_agreement"] > 0.95
    assert "the shape of their distribution" in answer.notes[2]


def test_pairs_that_the_noise_hides_are_marked():
    tables = tables_of(N_ROWS)  # the bank's yes or no depends on nothing
    answer = ask(released(tables, plan_of(tables, 4.0), np.random.default_rng(1)), "synthetic", rows=100)
    seen = dict(
        zip(zip(answer.table["column"], answer.table["with"], strict=True), answer.table["is_seen"], strict=True)
    )
    assert (seen["bank.income", "bank.owns"], seen["bank.income", "clinic.risk"]) == (False, True)
    n_hidden = sum(is_seen is False for is_seen in seen.values())
    assert f"{n_hidden} of 10 pairs are not distinguishable from noise" in "\n".join(answer.notes)


def test_the_same_seed_gives_the_same_rows_and_another_one_others(clear):
    layout = Layout.of(released(clear[0], plan_of(clear[0], 4.0), np.random.default_rng(0)))
    mixture = fit(layout)
    one, same, other = (
        SyntheticTable(replace(clear[1], drawn=draw_rows(layout, mixture, 200, seed)), "synthetic", ()).rows
        for seed in (1, 1, 2)
    )
    assert one.equals(same)
    assert not one.equals(other)


def test_rows_have_the_categories_numbers_within_bins_and_truth_values_of_the_owners(clear, tmp_path):
    import polars as pl

    table = SyntheticTable(clear[1], "synthetic", ("privacy: paid",))
    assert isinstance(table, ReleaseAnswer)
    assert table.rows.columns == ["bank.owns", "shop.goes", "clinic.age"]
    assert set(table.rows["shop.goes"].unique()) == set(GOES)
    assert set(table.rows["bank.owns"].unique()) == {0, 1}
    ages = table.rows["clinic.age"]
    assert (ages.min() >= 0, ages.max() <= 100) == (True, True)
    assert ((ages >= 18) & (ages < 65)).mean() == pytest.approx(
        joint_of(clear[0])["clinic.age=18..65"].mean(), abs=0.01
    )
    for name in ("rows.csv", "rows.parquet"):
        table.write(tmp_path / name)
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(table.rows)
    assert pl.read_csv(tmp_path / "rows.csv").equals(table.rows)


def test_gaps_of_numbers_and_values_that_were_not_released_are_null():
    rng = np.random.default_rng(5)
    code, gap = rng.choice(3, 2000, p=[0.5, 0.3, 0.2]), rng.random(2000) < 0.25
    income = np.where(gap, 0.0, rng.uniform(20, 60, 2000))
    bank = with_group(
        table_of("bank", {"income": (0, 80, income), "income=missing": (0, 1, gap.astype(float))}), "income"
    )
    bank_columns = [c.model_copy(update={"group": "income"}) for c in bank.schema.columns]
    bank = replace(bank, schema=bank.schema.model_copy(update={"columns": tuple(bank_columns)}))
    values = {f"risk={label}": (0, 1, (code == at).astype(float)) for at, label in enumerate(LABELS[:2])}  # not all
    tables = {
        "bank": bank,
        "clinic": with_group(table_of("clinic", values), "risk"),
        "shop": table_of("shop", {"visits": (0, 10, rng.uniform(0, 10, 2000))}),
    }
    answer = ask(released(tables, plan_of(tables, 200.0)), "synthetic", rows=2000)
    rows = SyntheticTable(answer, "synthetic", ()).rows
    assert rows["bank.income"].is_null().mean() == pytest.approx(gap.mean(), abs=0.02)
    assert rows["bank.income"].mean() == pytest.approx(income[~gap].mean(), rel=0.03)
    assert rows["clinic.risk"].is_null().mean() == pytest.approx((code == 2).mean(), abs=0.02)
    assert set(rows["clinic.risk"].drop_nulls().unique()) == set(LABELS[:2])
    assert "clinic.risk have values that were not released" in answer.notes[-1]


def test_the_gradient_of_the_fit_is_that_of_its_misfit():
    tables = tables_of(400)
    misfit = _Misfit(Layout.of(released(tables, plan_of(tables, 2.0), np.random.default_rng(3))))
    rng, at = np.random.default_rng(1), misfit.start()
    for scale in (0.0, 3.0):  # near the released means, and where numbers differ much between components
        here = at + scale * rng.normal(size=at.shape)
        way = rng.normal(size=at.shape)
        ahead, behind = misfit(here + 1e-5 * way)[0], misfit(here - 1e-5 * way)[0]
        assert (ahead - behind) / 2e-5 == pytest.approx(misfit(here)[1] @ way, rel=1e-3)


def test_intervals_are_read_from_the_names_of_bins():
    assert bin_of("0..18") == (0.0, 18.0)
    assert bin_of("-1.5..1e3") == (-1.5, 1000.0)
    assert [bin_of(text) for text in ("18..0", "0...1", "a..b", "0..", None, "1..1")] == [None] * 6


GOLDEN = """\
column            with  distance  noise  association  is_seen
bank.owns         none         #      #         none     none
shop.goes         none         #      #         none     none
clinic.age        none         #      #         none     none
bank.owns    shop.goes         #      #            #     True
bank.owns   clinic.age         #      #            #     True
shop.goes   clinic.age         #      #            #     True
rows: #
seed: #
mean distance of columns: #
mean distance of pairs: #
misfit: #
correlation difference: #
regression label: bank.owns
r squared: #, #
classification label: bank.owns
classification agreement: #
how three and more columns go together was not measured: the fit leaves it as even as pairs allow
errors and p-values computed from these rows count neither the noise nor chance, and fall with the number of rows \
asked for: take them from this release's own answers

privacy: paid
"""


def test_the_text_says_what_is_known(clear):
    text = re.sub(r"\d[\d.e-]*", "#", "\n".join(SyntheticTable(clear[1], "synthetic", ("privacy: paid",)).lines))
    assert [line.split() for line in text.splitlines()] == [line.split() for line in GOLDEN.splitlines()]
