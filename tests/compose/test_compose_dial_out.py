"""The deployment of docker-compose.yml whose parties accept no connection: the coordinator's relay leads to them."""

import json
import subprocess
from itertools import permutations
from pathlib import Path

import pytest

pytestmark = pytest.mark.compose

PARTIES = ("carrier", "host", "monitor")
EXAMPLES = Path(__file__).parents[2] / "examples"
REACH = "import socket, sys; socket.create_connection((sys.argv[1], 7101), 5)"


def run_example(running, name):
    view = json.loads(running.submit_from_host(EXAMPLES / f"{name}.toml", "--format", "json"))
    assert view["state"] == "DONE", view["reason"]
    return view["result"]


def test_no_container_reaches_a_party_and_none_publishes_a_port(federation_that_dials_out):
    for party in PARTIES:
        assert not federation_that_dials_out.inspect(party)["NetworkSettings"]["Ports"]
    for caller, party in permutations(("coordinator", *PARTIES), 2):
        if party == "coordinator":
            continue
        for name in (party, *([f"{party}.mesh"] if caller != "coordinator" else [])):
            command = ["docker", "exec", federation_that_dials_out.container(caller), "python", "-c", REACH, name]
            done = subprocess.run(command, capture_output=True, text=True)
            assert "ConnectionRefusedError" in done.stderr, (caller, name, done.stderr)


def test_jobs_run_by_the_relay_and_again_after_a_party_was_killed(federation_that_dials_out):
    result = run_example(federation_that_dials_out, "pca")
    assert len(result["explained_variance"]) >= 2
    federation_that_dials_out.kill("host")
    federation_that_dials_out.call("up", "--detach", "--no-build", "host")
    federation_that_dials_out.wait_until_healthy("host")
    assert run_example(federation_that_dials_out, "moments")
