"""Jobs that match rows in secret over real services: separate processes, mutual TLS on loopback."""

import json
import signal

import numpy as np
import pytest
from federation import Analyst, all_text, result_of
from forked_services import ForkedDeployment
from overlapping_tables import MOST, OWNERS, names_and_values, pooled, secret_job

from demo.local_deployment import LocalTable

N = 300
N_LARGE = 30_000
MATCHING = '\n[tables.matching]\ncolumns = [{column!r}]\nnormalise = ["trim", "lower"]\n'


def written(folder, name, party, names, values, *, rows, column="id"):
    """A table on disk with an id column of its own name, in its own spelling."""
    header = [column, *(["x0", "x1", "y"] if values.shape[1] == 3 else ["x0", "x1"])]
    spelt = [f" {one.upper()}" if party == "telco" else one for one in names]
    lines = [",".join([one, *map(repr, row)]) for one, row in zip(spelt, values.tolist(), strict=True)]
    path = folder / f"{party}-{name}.csv"
    path.write_text("\n".join([",".join(header), *lines]) + "\n")
    bounds = {c: (0.0, 1.0) if c == "y" else (-1.0, 1.0) for c in header[1:]}
    return LocalTable(name, path, bounds, rows, sections=MATCHING.format(column=column))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = {}
    for party, column in zip(OWNERS, ("id", "number", "member"), strict=True):
        names, values = (of[party] for of in names_and_values(N))
        strangers = [f"{party} {i}" for i in range(len(names))]
        twice = [names[1], *names[1:]] if party == "hospital" else names
        rng = np.random.default_rng(OWNERS.index(party))
        many = [str(i) for i in rng.permutation(2 * N_LARGE)[:N_LARGE]]
        of_many = rng.uniform(-1, 1, (N_LARGE, 2)).round(4)
        rows = (10, MOST[party])
        tables[party] = [
            written(folder, "people", party, names, values, rows=rows, column=column),
            written(folder, "strangers", party, strangers, values, rows=rows, column=column),
            written(folder, "twice", party, twice, values, rows=rows, column=column),
            written(
                folder, "too-many", party, names, values, rows=(10, 20 if party == "telco" else 600), column=column
            ),
            written(folder, "many", party, many, of_many, rows=(1000, N_LARGE), column=column),
        ]
    (folder / "run").mkdir()
    short = {"MOIETY_PARTY__LEAST_DEADLINE_S": "1"}
    with ForkedDeployment(folder / "run", tables, environment=short) as running:
        yield running


@pytest.fixture(scope="module")
def analyst(deployment):
    return Analyst(deployment)


def job_on(table, **changes):
    inputs = [{"party": party, "table": table} for party in OWNERS]
    privacy = {"epsilon": 50.0, "delta": 1e-6, "view": "coordinator"}
    return secret_job("pca", {"components": 2}, inputs=inputs, privacy=privacy, deadline_s=600.0, **changes)


def test_the_components_are_those_of_the_rows_that_all_have(analyst, deployment):
    view = analyst.run(job_on("people"))
    result, rows = result_of(view), pooled(N)
    assert result["n_rows"] == pytest.approx(N, abs=15)
    np.testing.assert_allclose(result["mean"], rows.mean(axis=0), atol=0.06)
    variances = np.linalg.eigvalsh(np.cov((rows / np.array([2, 2, 1, 2, 2, 2, 2])).T))[::-1]
    np.testing.assert_allclose(result["explained_variance"], variances[:2], rtol=0.25)
    report = deployment.report("bank", view.job_id)
    assert report.get("n_matched") is None
    assert f'"{N}"' not in json.dumps(report)


def test_no_service_says_how_many_rows_match_or_which(analyst, deployment):
    result_of(analyst.run(job_on("people")))
    text = all_text(deployment)
    assert '"job"' in text
    assert "common 1" not in text.lower()
    assert f": {N}," not in text


def test_where_no_row_matches_the_job_ends_with_an_answer_of_noise(analyst):
    result = result_of(analyst.run(job_on("strangers")))
    assert abs(result["n_rows"]) < 30  # of 380 in each table


@pytest.mark.parametrize(("table", "culprit"), [("twice", "hospital"), ("too-many", "telco")])
def test_a_table_with_an_id_twice_or_more_rows_than_declared_serves_no_job(analyst, table, culprit):
    view = analyst.run(job_on(table))
    assert (view.state, view.culprit, view.result_json) == ("FAILED", culprit, "")
    assert "its owner finds the reason in the log" in view.reason


def test_an_owner_killed_while_rows_are_matched_is_named(analyst, deployment):
    struck = []

    def strike(event):
        if event.stage == "matching" and not struck:
            struck.append(event)
            deployment.send_signal("bank", signal.SIGSTOP)  # without it nobody gets further
            deployment.send_signal("telco", signal.SIGKILL)
            deployment.send_signal("bank", signal.SIGCONT)

    view = analyst.run(job_on("many"), on_event=strike)
    assert struck
    assert (view.state, view.culprit, view.result_json) == ("FAILED", "telco", "")
    deployment.start("telco")
    deployment.wait_until_ready("telco")
