"""Tables of other customers, in other orders, spellings and forms, over real services: matched, and what goes wrong."""

import json
import signal
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from federation import Analyst, all_text
from forked_services import ForkedDeployment
from typer.testing import CliRunner

from analyses.job.job import Job
from analyses.job.schema import Table
from analyses.registry import ANALYSES, analysis_of
from cli.doctor.tables import check_table
from cli.main import app
from demo.local_deployment import LocalTable
from party.config import load_party_config
from party.tables.table import describe_table

N_COMMON = 150
ROWS = (50, 400)
LARGE = (50, 30_000)
"""So many ids take seconds to match, whatever the machine."""

KINDS_OF_MATCHING = ("revealed", "secret")
PARTIES = ("bank", "clinic", "shop")
STEPS = {"number": ["trim", "integer"], "born": ["date"]}
KINDS = {
    "bank": """
[tables.columns]
region = { kind = "category", values = ["north", "south"], others = "other" }
income = { kind = "number", bounds = [0, 100], missing = "column", gaps = ["n/a"] }
""",
    "clinic": """
[tables.columns]
smoker = { kind = "yes/no", missing = { value = "no" } }
stays = { kind = "integer", bounds = [0, 10] }
""",
    "shop": """
[tables.columns]
visits = { kind = "integer", bounds = [0, 40] }
loyal = { kind = "yes/no" }
""",
}
FILTERS = {
    "bank": '\n[tables.filters]\nsouthern = { region = { one_of = ["south"] } }\n',
    "clinic": "\n[tables.filters]\nstayed = { stays = { at_least = 3 } }\n",
}
COLUMNS = {
    "bank": ["region=north", "region=south", "region=other", "income", "income=missing"],
    "clinic": ["smoker", "stays"],
    "shop": ["visits", "loyal"],
}


def people(party, n_common=N_COMMON):
    """One row for each customer of a party: number, day of birth from 1950, and what the party knows."""
    rng = np.random.default_rng([PARTIES.index(party), n_common])
    own = 200 + 100 * PARTIES.index(party) + np.arange(40)
    two = 600 + np.arange(30) if party != "shop" else np.zeros(0, dtype=int)  # the bank's and the clinic's alone
    numbers = rng.permutation(np.concatenate([np.arange(1, n_common + 1), own, two]))
    is_well_off, is_gap = numbers % 3 == 0, numbers % 11 == 0
    noise = rng.random((2, len(numbers)))
    everything = {
        "number": numbers,
        "born": numbers * 37 % 18_000,
        "region": np.array(["north", "south", "abroad"])[numbers % 3],
        "income": [
            None if gap else round(30.0 + 40 * w + 5 * x, 3)
            for w, gap, x in zip(is_well_off, is_gap, noise[0], strict=True)
        ],
        "smoker": [
            None if gap else bool(w ^ (x < 0.2)) for w, gap, x in zip(is_well_off, is_gap, noise[0], strict=True)
        ],
        "stays": (noise[0] * 5 + 5 * is_well_off).astype(int),
        "visits": (noise[0] * 20 + 15 * is_well_off).astype(int),
        "loyal": is_well_off ^ (noise[1] < 0.1),
    }
    names = {"bank": ["region", "income"], "clinic": ["smoker", "stays"], "shop": ["visits", "loyal"]}[party]
    frame = pl.DataFrame({name: everything[name] for name in ("number", "born", *names)}, strict=False)
    return frame.with_columns((pl.col("born").cast(pl.Int32) - 7305).cast(pl.Date))


def encoded(party, n_common=N_COMMON):
    """What analyses should see of the rows that all have, by number, written down without the encoder."""
    frame = people(party, n_common).filter(pl.col("number") <= n_common).sort("number")
    column = {name: frame[name].to_list() for name in frame.columns}
    match party:
        case "bank":
            regions = [[float(one == name) for one in column["region"]] for name in ("north", "south", "abroad")]
            income = [[one or 0.0 for one in column["income"]], [float(one is None) for one in column["income"]]]
            return np.array([*regions, *income]).T
        case "clinic":
            return np.array([[float(bool(one)) for one in column["smoker"]], column["stays"]], dtype=float).T
        case _:
            return np.array([column["visits"], column["loyal"]], dtype=float).T


def as_written(party, frame):
    """The bank's CSV has numbers and dates spelt in its own way, the clinic and the shop have more rows than people."""
    if party == "bank":
        spelt = pl.format(" {}", pl.col("number").cast(pl.String).str.zfill(5))
        income = pl.col("income").cast(pl.String).fill_null("n/a")
        return frame.with_columns(spelt.alias("number"), pl.col("born").dt.strftime("%d.%m.%Y"), income)
    if party == "clinic":  # two rows without an id
        more = frame.head(2).with_columns(number=pl.lit(None, dtype=pl.Int64))
        return pl.concat([frame, more])
    halves = pl.concat([frame.with_columns(visits=pl.col("visits") // 2), frame])  # visits come in two rows
    rest = frame["visits"] - frame["visits"] // 2
    return pl.concat([halves.head(len(frame)), frame.with_columns(visits=rest)]).sort("loyal", "number")


def section(party, **changes):
    """What identifies a row at a party."""
    fields = {
        "columns": ["number", "born"],
        "normalise": STEPS,
        "date_formats": {"born": "%d.%m.%Y"} if party == "bank" else {},
        "duplicates": {"visits": "sum", "loyal": "max"} if party == "shop" else "refuse",
        "missing": "leave out" if party == "clinic" else "refuse",
        "reveal": True,
    } | changes
    matching = "\n[tables.matching]\n" + "".join(f"{name} = {inline(v)}\n" for name, v in fields.items())
    return KINDS[party] + matching + FILTERS.get(party, "")


def inline(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def tables_in(folder):
    """Tables by what is wrong with one of them; those of the others are right."""
    found = {}
    for party in PARTIES:
        kind = "parquet" if party == "clinic" else "csv"

        def write(name, frame, kind=kind, party=party):
            path = folder / f"{party}-{name}.{kind}"
            frame.write_parquet(path) if kind == "parquet" else frame.write_csv(path)
            return path

        right = as_written(party, people(party))
        whole = LocalTable("people", write("people", right), {}, ROWS, sections=section(party))
        of_clinic = party == "clinic"
        found[party] = [
            whole,
            replace(whole, name="large", rows=LARGE),
            replace(whole, name="strangers", path=write("strangers", strangers(party, right))),
            replace(whole, name="nameless", sections=section(party, **({"missing": "refuse"} if of_clinic else {}))),
            replace(whole, name="repeated", path=write("repeated", repeated(party, right))),
            replace(whole, name="hidden", sections=section(party, reveal=not of_clinic)),
            replace(
                whole,
                name="otherwise",
                sections=section(party, normalise={**STEPS, "number": ["digits"]} if of_clinic else STEPS),
            ),
            replace(whole, name="unmatched", sections=KINDS[party] if of_clinic else section(party)),
            replace(whole, name="too-large", rows=(50, 100) if of_clinic else ROWS),
        ]
    return found


def repeated(party, frame):
    return pl.concat([frame, frame.head(1)]) if party == "bank" else frame


def strangers(party, frame):
    """The same rows about other people at each party: nobody is everybody's."""
    if party == "bank":
        return frame.with_columns(number=pl.lit("9") + pl.col("number").str.strip_chars())
    return frame.with_columns(number=pl.col("number") + 1000 * (1 + PARTIES.index(party)))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    (folder / "run").mkdir()
    rules = {"max_epsilon_per_job": 1e6, "matching": ["revealed", "secret"]}
    policy = {party: {"policy.automatic": rules} for party in PARTIES}
    with ForkedDeployment(folder / "run", tables_in(folder), budget=(1e6, 1e-6), policy=policy) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def job(analysis="pca", parameters=None, columns=None, table="people", **changes):
    columns = columns or COLUMNS
    inputs = [{"party": party, "table": table, "columns": columns[party]} for party in PARTIES if party in columns]
    fields = {
        "analysis": analysis,
        "inputs": inputs,
        "compute": PARTIES,
        "privacy": {"epsilon": 5000.0, "delta": 1e-6},
        "parameters": {"components": 2} if parameters is None else parameters,
        "matching": {"kind": "revealed"},
        "deadline_s": 120.0,
    }
    return Job.model_validate(fields | changes)


def pooled(deployment, asked, *more):
    """The plan, and the analysis's own reference on rows that were joined and encoded by hand."""
    schemas, tables = [], []
    for party in asked.members:
        brought = next(one for one in asked.inputs if one.party == party)
        schemas.append(describe_table(load_party_config(deployment.config_path(party)), brought))
        places = [COLUMNS[party].index(column.name) for column in schemas[-1].columns]
        values = encoded(party)[:, places]
        plain = schemas[-1].model_copy(update={"matching": None})
        tables.append(Table(plain, values))
    analysis = analysis_of(asked)
    plan = analysis.plan(asked, schemas)
    return plan, analysis.reference(tables, plan, *more)


def result_of(view):
    assert view.state == "DONE", view.reason
    return json.loads(view.result_json)


def told(deployment, party, *arguments):
    return CliRunner().invoke(app, [*arguments, "--config", str(deployment.config_path(party))]).stdout


def spent(deployment, table):
    """What all jobs have spent of a table's budget, at each party."""
    shown = [json.loads(told(deployment, party, "budget", "show", "--format", "json"))["budgets"] for party in PARTIES]
    return [one["spent_epsilon"] for budgets in shown for one in budgets if one["dataset"] == table]


def test_principal_components_are_those_of_the_rows_that_all_have(deployment, analyst):
    asked = job(parameters={"components": 2, "center": True})
    view = analyst.run(asked)
    found, (_, exact) = result_of(view), pooled(deployment, asked)
    directions = np.linalg.eigh(exact)[1][:, :-3:-1].T
    assert np.abs(np.sum(directions * np.array(found["components"]), axis=1)) == pytest.approx([1, 1], abs=0.01)
    assert found["n_rows"] == pytest.approx(N_COMMON, abs=1)
    assert found["privacy"]["matching"]["kind"] == "revealed"
    for party, n_rows, left_out, merged in (("bank", 220, 0, 0), ("clinic", 220, 2, 0), ("shop", 190, 0, 190)):
        report = deployment.report(party, view.job_id)
        assert (report["rows"], report["matched_rows"]) == (n_rows, N_COMMON)
        assert (report["left_out_rows"], report["merged_rows"]) == (left_out, merged)
        shown = told(deployment, party, "party", "report", view.job_id)
        assert f"rows that all owners have, and that were used: {N_COMMON}" in shown
        assert "Rows are matched (revealed)" in shown
    public = json.dumps(found) + view.plan_json
    assert not any(word in public for word in ("matched_rows", "left_out_rows", "merged_rows"))


@pytest.mark.parametrize(
    ("method", "kind"), [({"method": "mpc"}, "revealed"), ({"method": "sketch", "sketch_rows": 2000}, "revealed")]
)
def test_an_approximation_loses_what_the_best_one_of_these_rows_loses(deployment, analyst, method, kind):
    asked = job("low-rank", {"rank": 2, **method}, matching={"kind": kind})
    found, (_, exact) = result_of(analyst.run(asked)), pooled(deployment, asked)
    components = np.array(found["components"])
    assert abs(components[0] @ exact[0]) > 0.95
    if method["method"] == "mpc":  # a sketch of few rows tells the second one from noise only with many of its own
        assert np.linalg.norm(exact @ components.T) ** 2 > 1.99


@pytest.mark.parametrize("kind", KINDS_OF_MATCHING)
def test_least_squares_agree_with_the_pooled_rows(deployment, analyst, kind):
    columns = COLUMNS | {"bank": ["region=north", "region=south", "income", "income=missing"]}  # the third is the rest
    privacy = {"epsilon": 1e5, "delta": 1e-6}  # with more noise the errors that a result states vary much themselves
    asked = job("least-squares", {"label": "shop.visits"}, columns, matching={"kind": kind}, privacy=privacy)
    found, (_, exact) = result_of(analyst.run(asked)), pooled(deployment, asked)
    off = np.abs(np.array(found["coefficients"]) - exact.coefficients)
    assert (off <= 8 * np.array(found["standard_errors"])).all()
    assert abs(found["intercept"] - exact.intercept) <= 8 * found["intercept_standard_error"]
    assert max(found["standard_errors"]) < 1  # of 0 to 40 visits; 0.48 with a deviation of 0.03 in 300 runs


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"method": "moments"}, "revealed"),
        ({"method": "gradient", "iterations": 20}, "revealed"),
        ({"method": "moments"}, "secret"),
    ],
)
def test_logistic_regressions_agree_with_the_pooled_rows(deployment, analyst, parameters, kind):
    asked = job("logistic-regression", {"label": "shop.loyal", **parameters}, matching={"kind": kind})
    found, (_, (weights, intercept)) = result_of(analyst.run(asked)), pooled(deployment, asked)
    rows = np.hstack([encoded(party) for party in PARTIES])[:, :-1]
    ours = rows @ np.array(found["weights"]) + found["intercept"]
    best = rows @ np.asarray(weights) + intercept
    assert np.corrcoef(ours, best)[0, 1] > 0.99


@pytest.mark.parametrize("kind", KINDS_OF_MATCHING)
def test_moments_patterns_and_clusters_agree_with_the_pooled_rows(deployment, analyst, kind):
    matching = {"kind": kind}
    columns = {"bank": ["region=north"], "clinic": ["smoker"], "shop": ["loyal"]}
    asked = job("moments", {"order": 2}, columns, matching=matching)
    found, (_, exact) = result_of(analyst.run(asked)), pooled(deployment, asked)
    assert found["moment"] == pytest.approx(exact, abs=16 * found["standard_error"])
    asked = job("pattern-count", {}, columns, matching=matching)
    found, (_, exact) = result_of(analyst.run(asked)), pooled(deployment, asked)
    assert (np.abs(np.array(found["counts"]) - exact) <= 16 * np.array(found["standard_errors"])).all()
    if kind not in ANALYSES["clustering"].matching:
        return
    asked = job("clustering", {"k": 2, "k_local": 2}, matching=matching)
    found = result_of(analyst.run(asked))
    assert sum(found["weights"]) == pytest.approx(N_COMMON, abs=6 * max(found["standard_errors"]) + 1)


def test_people_are_counted_by_bins_whoever_is_in_which_table(deployment, analyst):
    fields = {"matching": None, "privacy": {"epsilon": 60.0, "delta": 1e-6}}
    found = result_of(analyst.run(job("joint-count", {"bins": "auto"}, **fields)))
    ids = [set(people(party)["number"].to_list()) for party in PARTIES]
    for one in found["people"]:
        of = [ids[PARTIES.index(party)] for party in one["parties"]]
        for name, exact in (("union", set.union(*of)), ("common", set.intersection(*of))):
            assert abs(one[name] - len(exact)) <= 6 * one[f"{name}_standard_error"] < 150
    assert len(found["people"]) == 7
    assert found["n_rows"] == found["people"][-1]["union"]


@pytest.mark.parametrize("kind", KINDS_OF_MATCHING)
def test_counts_sums_means_and_cross_tables_are_those_of_the_pooled_rows(deployment, analyst, kind):
    """Within 20 standard errors: the noise has tails of exp(-sqrt(2) x), so that fails by chance below 1e-10."""
    changes = {"matching": {"kind": kind}, "privacy": {"epsilon": 60.0, "delta": 1e-6}}
    asked = job("joint-mean", {}, **changes)
    found, (plan, exact) = result_of(analyst.run(asked)), pooled(deployment, asked)
    assert exact["n_rows"] == N_COMMON
    assert abs(found["n_rows"] - N_COMMON) <= 20 * found["n_rows_standard_error"] < 40
    widths = np.array([upper - lower for lower, upper in found["bounds"]])
    for field in ("mean", "sum"):
        errors = np.array(found[f"{field}_standard_errors"])
        assert (np.abs(np.array(found[field]) - exact[field]) <= 20 * errors).all()
        assert (20 * errors < widths * (0.4 if field == "mean" else 60)).all()
    assert found["columns"] == list(plan.column_names)
    count = result_of(analyst.run(job("joint-count", {}, **changes)))
    assert abs(count["n_rows"] - N_COMMON) <= 20 * count["n_rows_standard_error"] < 20
    columns = {"bank": ["region"], "clinic": ["smoker"], "shop": ["loyal"]}
    asked = job("cross-table", {}, columns, **changes)
    found, (_, exact) = result_of(analyst.run(asked)), pooled(deployment, asked)
    assert (np.abs(np.array(found["counts"]) - exact) <= 20 * np.array(found["standard_errors"])).all()
    assert np.array(found["counts"]).shape == (3, 2, 2)


def test_where_nobody_is_everybodys_a_job_ends_with_noise_and_says_nothing_of_it(deployment, analyst):
    view = analyst.run(job(table="strangers", parameters={"components": 2, "center": False}))
    assert abs(result_of(view)["eigenvalues"][0]) < 1.0
    assert deployment.report("shop", view.job_id)["matched_rows"] == 0
    assert min(spent(deployment, "strangers")) > 0


def test_matched_in_secret_no_owner_learns_how_many_rows_are_used(deployment, analyst):
    view = analyst.run(job(matching={"kind": "secret"}, parameters={"components": 2, "center": True}))
    assert result_of(view)["n_rows"] == pytest.approx(N_COMMON, abs=1)
    assert result_of(view)["privacy"]["matching"]["reveals"] == "nobody learns which rows matched, nor how many"
    for party in PARTIES:
        report = deployment.report(party, view.job_id)
        assert "matched_rows" not in report
        assert report["rows"] == len({*people(party)["number"]})


def test_filters_of_several_owners_leave_the_rows_that_pass_all_of_them_and_nobody_learns_how_many(deployment, analyst):
    asked = job(matching={"kind": "secret"}, parameters={"components": 2, "center": True}).model_dump(by_alias=True)
    for one, where in zip(asked["inputs"], ("southern", "stayed", None), strict=True):
        one["where"] = where
    view = analyst.run(Job.model_validate(asked))
    passing = (encoded("bank")[:, 1] > 0) & (encoded("clinic")[:, 1] >= 3)
    assert 0 < passing.sum() < N_COMMON / 2
    found = result_of(view)
    assert found["n_rows"] == pytest.approx(passing.sum(), abs=1)
    rows = np.hstack([encoded(party) for party in PARTIES])[passing]
    ranges = np.array([1, 1, 1, 100, 1, 1, 10, 40, 1])
    assert np.allclose(np.array(found["mean"]) / ranges, rows.mean(axis=0) / ranges, atol=0.05)
    n_southern = people("bank").filter(pl.col("region") == "south").height
    report = deployment.report("bank", view.job_id)
    assert (report["filtered_rows"], report["rows"]) == (220 - n_southern, n_southern)
    assert "matched_rows" not in report


def test_where_revealing_is_not_allowed_rows_are_matched_in_secret(analyst):
    assert result_of(analyst.run(job(table="hidden", matching={"kind": "secret"})))["analysis"] == "pca"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (
            "hidden",
            "the owner of table 'hidden' of party 'clinic' does not allow that owners learn which of their rows",
        ),
        (
            "otherwise",
            "of party 'clinic' identify rows differently: 2 fields (trim, integer; date), and 2 fields (digits; date)",
        ),
        ("unmatched", "table 'unmatched' of party 'clinic' does not say what identifies its rows"),
    ],
)
def test_what_is_not_declared_is_refused_by_name_before_anything_is_read(deployment, analyst, table, why):
    before = spent(deployment, table)
    view = analyst.run(job(table=table))
    assert (view.state, view.result_json) == ("FAILED", "")
    assert why in view.reason
    assert spent(deployment, table) == before


@pytest.mark.parametrize(
    ("table", "party", "in_its_log", "by_the_doctor"),
    [
        ("nameless", "clinic", "a row has no id in 'number', 'born'", "row 221, number, born: ', "),
        ("repeated", "bank", "two rows have the same id in 'number', 'born'", "line 222, number, born: "),
        ("too-large", "clinic", "its number of rows is outside the range", "222 rows, and 50 to 100 are declared"),
    ],
)
def test_what_is_wrong_with_a_table_only_its_owner_reads_and_nothing_is_spent(
    deployment, analyst, table, party, in_its_log, by_the_doctor
):
    view = analyst.run(job(table=table))
    assert (view.state, view.result_json) == ("FAILED", "")
    assert f"table '{table}' of party '{party}' cannot be used; its owner finds the reason" in view.reason
    for other in (*PARTIES, "coordinator"):
        assert (in_its_log in deployment.log_path(other).read_text()) == (other == party)
    assert spent(deployment, table) == [0, 0, 0]
    config = load_party_config(deployment.config_path(party))
    (declared,) = (one for one in config.tables if one.name == table)
    assert by_the_doctor in "".join(check.found for check in check_table(config, declared))


def test_nothing_that_services_log_or_keep_names_an_id(deployment, analyst):
    result_of(analyst.run(job()))
    text = all_text(deployment) + (deployment.folder / "jobs.sqlite").read_bytes().decode(errors="replace")
    frame = people("bank")
    assert "matching" in text
    for number, born in frame.select("number", "born").iter_rows():
        assert born.isoformat() not in text
        assert f"{number:05}" not in text.split()


def test_a_party_killed_while_rows_are_matched_ends_the_job_at_all_and_nothing_is_spent(deployment, analyst):
    struck = []

    def strike(event):
        if event.stage == "matching" and not struck:
            struck.append(event)
            deployment.send_signal("clinic", signal.SIGKILL)

    view = analyst.run(job(table="large"), on_event=strike)
    deployment.start("clinic")
    deployment.wait_until_ready("clinic")
    assert struck
    assert (view.state, view.result_json) == ("FAILED", "")
    assert "clinic" in view.reason
    assert spent(deployment, "large") == [0, 0, 0]
