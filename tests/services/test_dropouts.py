"""Four parties, of which one may collude, as processes: one may drop out once its input is with the others."""

import signal

import numpy as np
import pytest
from federation import Analyst, memory_table, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment

from analyses.pca import protocol as pca

PARTIES = ("bank", "hospital", "telco", "insurer")
VALUES = {name: random_values((400, 2), seed) for seed, name in enumerate(PARTIES)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    tables = tables_of(VALUES, folder)
    (folder / "run").mkdir()
    with ForkedDeployment(folder / "run", tables) as running:
        yield running


@pytest.mark.parametrize("stage", ["input", "opening"])
def test_a_party_killed_after_its_input_does_not_stop_a_pca(deployment, stage):
    parameters = {"components": 2, "center": False, "gamma": 1024, "max_rows": 1_000_000}
    analyst, struck, job = Analyst(deployment), [], pca_job(PARTIES, parameters=parameters, deadline_s=120.0)
    said = {name: set() for name in PARTIES}

    def strike(event):
        said.get(event.member, set()).add(event.stage)
        # Telco's own word does not tell that its rows have left it; who multiplies has them.
        others_have_its_rows = all(said[name] & {"multiply", "opening"} for name in PARTIES if name != "telco")
        if stage in said["telco"] and others_have_its_rows and not struck:
            struck.append(event)
            deployment.send_signal("telco", signal.SIGKILL)

    view = analyst.run(job, on_event=strike)
    deployment.start("telco")
    deployment.wait_until_ready("telco")
    assert struck
    tables = [memory_table(p, VALUES[p]) for p in PARTIES]
    exact = pca.reference(tables, pca.plan(job, [t.schema for t in tables]))
    values, components = pca.leading_components(exact, 2)
    result = result_of(view)
    assert np.allclose(result["eigenvalues"][0], values[0], rtol=0.02)
    assert abs(np.dot(result["components"][0], components[0])) > 0.999
    assert result["wrong_shares_from"] == []
