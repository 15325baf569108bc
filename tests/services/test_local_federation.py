"""`moiety.local_federation`: real services for a tutorial, which end whatever happens."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
from child_processes import child_environ
from deadlines import GENEROUS_S
from moiety import PCA, Table, local_federation

from demo.local_deployment import DeploymentError

PARTIES = ("bank", "clinic", "shop")
BOUNDS = {"x": (0.0, 1.0), "y": (-1.0, 1.0)}


def table(seed, **changes):
    rng = np.random.default_rng(seed)
    data = polars.DataFrame({"id": [f"p{i}" for i in range(60)], "x": rng.random(60), "y": rng.uniform(-1, 1, 60)})
    return Table(**{"name": "people", "data": data, "bounds": BOUNDS, "rows": (20, 100), "id_column": "id", **changes})


def columns_of(seed):
    return {name: column.to_list() for name, column in table(seed).data.to_dict().items()}


def tables():
    """A data frame of each of two kinds, and a mapping."""
    return {
        "bank": table(0),
        "clinic": [table(1, data=pandas.DataFrame(columns_of(1)))],
        "shop": table(2, data=columns_of(2)),
    }


def services_of(folder):
    """Return the ids of the processes that name a folder in their command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def wait_until(is_so):
    end = time.monotonic() + GENEROUS_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_questions_are_answered_and_everything_ends_with_the_block_though_it_raises():
    with suppress(KeyError), local_federation(tables(), budget=(50.0, 1e-6)) as federation:
        question = PCA(dict.fromkeys(PARTIES, "people"), epsilon=20.0, delta=1e-6, components=1)
        assert federation.client.run(question).components_.shape == (1, 6)
        assert federation.party_config("bank").exists()
        assert len(services_of(federation.folder)) == 5
        raise KeyError
    assert services_of(federation.folder) == []
    assert not federation.folder.exists()
    assert "stopped" in repr(federation)
    federation.stop()


PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
from test_local_federation import tables
from moiety import local_federation
federation = local_federation(tables())
print(federation.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(None, marks=pytest.mark.slow)])
def test_everything_ends_with_the_program_however_it_ends(number):
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environ())
    folder = Path(program.stdout.readline().strip())
    assert len(services_of(folder)) == 5
    if number is None:
        program.stdin.close()
    else:
        os.kill(program.pid, number)
    program.wait()
    wait_until(lambda: services_of(folder) == [] and not folder.exists())
    program.stdout.close()
    program.stdin.close()


@pytest.mark.slow
def test_the_end_of_the_keeper_ends_the_services():
    federation = local_federation(tables())
    os.kill(next(p for p in services_of(federation.folder) if b"demo.tutorial" in cmdline(p)), signal.SIGTERM)
    wait_until(lambda: services_of(federation.folder) == [] and not federation.folder.exists())
    federation.stop()


def cmdline(process):
    return Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"bounds": {"z": (0.0, 1.0)}}, "table 'people' has no column 'z'; it has id, x, y"),
        ({"id_column": "number"}, "table 'people' has no column 'number'"),
        ({"data": {"id": ["a"], "x": [0.5, 0.25], "y": [0.0]}}, "columns of different lengths"),
    ],
)
def test_a_table_that_is_not_as_it_is_described_is_refused_before_anything_starts(
    changed, words, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match=words):
        local_federation({**tables(), "bank": table(0, **changed)})
    assert list(tmp_path.iterdir()) == []


def test_two_parties_are_too_few():
    with pytest.raises(ValueError, match="at least three parties, and these are 2"):
        local_federation({"bank": table(0), "shop": table(1)})


@pytest.mark.slow
def test_a_service_that_does_not_start_says_why():
    with pytest.raises(DeploymentError, match="upper bound") as raised:
        local_federation({**tables(), "bank": table(0, bounds={"x": (1.0, 0.0)})})
    assert "bank ended at its start" in str(raised.value)
