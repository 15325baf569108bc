"""Matrix factorization among containers: a job between parties, and a series of masked sums over devices."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analyses.job.job import Job
from analyses.matrix_factorization import protocol
from analyses.run_locally import run_locally
from analyst.connection import ClientConfig
from cli.ask import run_question
from demo.data_sets.ratings import write_student_parties
from questions.reading import question_from_toml

pytestmark = pytest.mark.compose

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "matrix-factorization.toml"
SGD_EXAMPLE = REPOSITORY / "examples" / "matrix-factorization-sgd.toml"
QUESTION = REPOSITORY / "deploy" / "compose" / "devices" / "films.toml"
HALL_OF = {"carrier": "east", "host": "north", "monitor": "west"}
"""As deploy/compose/tables deals them."""

CONTAINERS = ("devices-first", "devices-second", "devices-third")
STATE = "/var/lib/moiety/state"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """What the parties of the containers hold, as an analysis gets it."""
    of_hall = write_student_parties(tmp_path_factory.mktemp("halls")).in_memory()
    named = {table.schema.party: table for table in of_hall}
    return {
        party: replace(named[hall], schema=named[hall].schema.model_copy(update={"party": party}))
        for party, hall in HALL_OF.items()
    }


def asked_of_the_parties(example):
    """An example, asked of the parties that there are."""
    text = example.read_text()
    for party, hall in HALL_OF.items():
        assert text.count(f'"{hall}"') == 1
        text = text.replace(f'"{hall}"', f'"{party}"')
    return text


def example_of(rank):
    """The example with another rank."""
    text = asked_of_the_parties(EXAMPLE)
    assert text.count('rank = "auto"') == 1
    return text.replace('rank = "auto"', rank)


def offsets_of(result):
    return np.array(result["offsets"]) / result["units"]


@pytest.mark.parametrize("rank", ['rank = "auto"', "rank = 2\nrounds = 2"], ids=["the example", "a series"])
def test_a_job_among_the_containers_comes_to_what_it_does_in_one_process(federation, tables, tmp_path, rank):
    path = tmp_path / "job.toml"
    path.write_text(example_of(rank))
    job = Job.from_toml(path.read_text())
    view = json.loads(federation.submit_from_host(path, "--format", "json"))
    assert view["state"] == "DONE", view["reason"]
    local = asyncio.run(run_locally(job, tables))
    of_noise = ("offsets", "vectors", "model_digest")
    assert {k: v for k, v in view["result"].items() if k not in (*of_noise, "receipts")} == {
        k: v for k, v in local.result.items() if k not in of_noise
    }
    exact = protocol.reference(list(tables.values()), local.plan)
    away = [np.sqrt(np.mean((offsets_of(one) - exact.offsets) ** 2)) for one in (view["result"], local.result)]
    assert 0.85 < away[0] / away[1] < 1.15, "the same ratings and noise differ by 2 % or so"
    command = ["moiety", "party", "recommend", "--config", "/etc/moiety/party.toml", "--job", view["job_id"]]
    user = tables["carrier"].ratings.user_names[0]
    said = federation.call("exec", "-T", "carrier", *command, "--user", user, "--top", "3")
    assert len(said.splitlines()) == 3


def test_a_descent_among_the_containers_comes_to_embeddings_in_the_set_and_recommends(federation, tables, tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(asked_of_the_parties(SGD_EXAMPLE))
    view = json.loads(federation.submit_from_host(path, "--format", "json"))
    assert view["state"] == "DONE", view["reason"]
    local = asyncio.run(run_locally(Job.from_toml(path.read_text()), tables))
    assert {k: v for k, v in view["result"].items() if k not in ("vectors", "receipts")} == {
        k: v for k, v in local.result.items() if k != "vectors"
    }
    vectors, others = (np.array(one["vectors"]) / one["units"] for one in (view["result"], local.result))
    assert vectors.shape == others.shape
    assert (vectors >= 0).all()
    largest = local.plan.descent.params.largest
    assert ((vectors**2).sum(axis=1) <= largest).all()
    assert len(view["result"]["rounds_opened"]) == local.plan.n_sums == 10
    command = ["moiety", "party", "recommend", "--config", "/etc/moiety/party.toml", "--job", view["job_id"]]
    user = tables["carrier"].ratings.user_names[0]
    said = federation.call("exec", "-T", "carrier", *command, "--user", user, "--top", "3")
    assert len(said.splitlines()) == 3


EVERY_DEVICE = """
printf %s "$0" >/tmp/answer.json
for name in "$@"; do
    config=STATE/$name.toml
    moiety device recommend --config $config --format json | tr -d '\\n' && echo
    moiety device recommend --config $config --format json --model /tmp/answer.json | tr -d '\\n' && echo
    moiety device budget --config $config --format json | tr -d '\\n' && echo
done
""".replace("STATE", STATE)
"""What a container says of each of its devices, in three lines: items by the model that it has kept, items by the one
that it is given here, and its budget."""


BUDGETS = """
for name in "$@"; do
    moiety device budget --config STATE/$name.toml --format json | tr -d '\\n' && echo
done
""".replace("STATE", STATE)
SGD_FIELDS = 'form = "sgd"\nrank = 1\nsteps = 3\nsampling_rate = 0.5\nmost_participations = 2\n'
N_PAID = {"statistics": 3, "sgd": 2}
"""Of three vectors that a device sends."""


def committed_of(federation, service, names):
    said = federation.call("exec", "-T", service, "sh", "-ec", BUDGETS, "sh", *names)
    return [json.loads(line)["budget"]["committed_jobs"] for line in said.splitlines()]


@pytest.mark.parametrize("form", ["statistics", "sgd"])
def test_a_series_over_devices_begins_without_a_killed_container_and_takes_it_in_again(federation, monkeypatch, form):
    """Its device is waited for in round 0, is started again meanwhile, and is in the last round."""
    text = QUESTION.read_text()
    assert text.count("rank = 1\nrounds = 2\n") == 1
    text = text.replace("rank = 1\nrounds = 2\n", SGD_FIELDS) if form == "sgd" else text
    before = {service: committed_of(federation, service, names) for service, names in federation.devices.items()}
    monkeypatch.setenv("MOIETY_CLIENT__COORDINATOR__ADDRESS", f"127.0.0.1:{federation.port}")
    config = ClientConfig.load(federation.client_config)
    federation.kill("devices-third")

    def on_stage(report):
        if report.stage == "advertise keys, round 0":
            assert tuple(report.missing) == ("eve",)
            federation.call("start", "devices-third")
            federation.wait_until_devices_are_ready("devices-third")

    answer = run_question(config, question_from_toml(text), on_stage=on_stage)
    everybody = [name for names in federation.devices.values() for name in names]
    survivors = [one["survivors"] for one in answer["rounds"]]
    assert len(survivors) == 3
    assert (survivors[0], survivors[-1]) == (everybody[:-1], everybody)
    assert answer["ended_early_because"] is None
    for service, names in federation.devices.items():
        said = federation.call("exec", "-T", service, "sh", "-ec", EVERY_DEVICE, json.dumps(answer), *names)
        lines = [json.loads(line) for line in said.splitlines()]
        of_names = zip(names, before[service], lines[::3], lines[1::3], lines[2::3], strict=True)
        for name, n_before, kept, by_answer, budget in of_names:
            assert kept == by_answer
            assert len(kept) > 0
            n_vectors = sum(name in one for one in survivors)
            assert budget["budget"]["committed_jobs"] - n_before == min(n_vectors, N_PAID[form])
            assert budget["budget"]["reserved_jobs"] == 0


@pytest.mark.parametrize("service", CONTAINERS)
def test_a_container_of_devices_is_confined_and_holds_their_keys_only(federation, service):
    state = federation.inspect(service)
    host = state["HostConfig"]
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["CapAdd"]) == (True, ["ALL"], None)
    assert state["Config"]["User"] == "moiety"
    assert set(state["NetworkSettings"]["Networks"]) == {f"{federation.project}_control"}
    held = federation.call("exec", "-T", service, "sh", "-c", f"cd {STATE} && ls *.key *.identity")
    assert set(held.split()) == {
        f"{name}.{kind}" for name in federation.devices[service] for kind in ("key", "identity")
    }
