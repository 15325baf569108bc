"""`moiety.local_federation`: real services for a tutorial, which end whatever happens."""

import datetime
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
from child_processes import child_environ
from deadlines import wait_until

from demo.local_deployment import DeploymentError
from moiety import PCA, PatternCount, Table, local_federation

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


def kinds(seed):
    """A table with a category, a yes/no with gaps, and dates, in an order of its own."""
    rng = np.random.default_rng(seed)
    n, ids = 80, [f"p{i}" for i in range(80)]
    frame = polars.DataFrame(
        {
            "who": ids,
            "region": rng.choice(["north", "south", "abroad"], n),
            "smoker": [None if one < 0.1 else bool(one < 0.5) for one in rng.random(n)],
            "since": [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 366, n)],
        }
    )
    return frame.sample(fraction=1.0, shuffle=True, seed=seed)


def tables_with_kinds(folder):
    """The same ones, and for each owner one with kinds, gaps, dates or a filter, whose ids are matched."""
    columns = {
        "region": {"kind": "category", "values": ["north", "south"], "others": "other"},
        "smoker": {"kind": "yes/no", "missing": {"value": "no"}},
        "since": {"kind": "date", "bounds": [datetime.date(2020, 1, 1), datetime.date(2020, 12, 31)]},
    }
    matching = {"columns": ["who"], "normalise": ["trim"], "reveal": True}

    def of(seed, *names, **changes):
        chosen = {name: columns[name] for name in names}
        return Table("kinds", kinds(seed), rows=(20, 200), columns=chosen, matching=matching, **changes)

    path = folder / "shop.csv"
    path.write_text("who;spent\n" + "".join(f"p{i};{i},5\n" for i in range(80)))
    source = {"delimiter": ";", "decimal_comma": True}
    shop = Table("kinds", path, {"spent": (0, 100)}, (20, 200), matching=matching, source=source)
    first = tables()
    return {
        "bank": [first["bank"], of(1, "region", "smoker")],
        "clinic": [*first["clinic"], of(2, "smoker", "since")],
        "shop": [first["shop"], shop],
    }


def check_count_of_kinds(federation):
    inputs = {"bank": ("kinds", ["region", "smoker"]), "clinic": ("kinds", ["smoker"])}
    asked = PatternCount(
        inputs, epsilon=9.0, delta=1e-6, compute=["bank", "clinic", "shop"], matching="revealed", max_rows=200
    )
    found = federation.client.run(asked).to_polars()
    assert found.columns[:3] == ["bank.region", "bank.smoker", "clinic.smoker"]
    is_counted = (polars.col("region") == "north") & ~polars.col("smoker").fill_null(value=False)
    north = kinds(1).filter(is_counted)["who"]
    others = kinds(2).filter(~polars.col("smoker").fill_null(value=False))["who"]
    exact = len(set(north) & set(others))
    meant = {"bank.region": "north", "bank.smoker": 0, "clinic.smoker": 0}
    (count,) = found.filter(*(polars.col(name) == value for name, value in meant.items()))["count"]
    assert abs(count - exact) < 6 < exact


def test_a_table_in_memory_can_be_drafted_for_its_owner_to_confirm():
    text = Table("people", kinds(1)).draft()
    assert 'name = "people"' in text
    for column in ("region", "smoker", "since"):
        assert column in text
    assert "abroad" not in text  # values are never looked at


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


@pytest.mark.slow  # `test_client_page.py` starts one too, and `no_process_is_left` sees that it ends
def test_tables_in_memory_are_asked_and_everything_ends_with_the_block_though_it_raises(tmp_path):
    with suppress(ZeroDivisionError), local_federation(tables_with_kinds(tmp_path), budget=(50.0, 1e-6)) as federation:
        question = PCA(dict.fromkeys(PARTIES, "people"), epsilon=20.0, delta=1e-6, components=1)
        assert federation.client.run(question).components_.shape == (1, 6)
        check_count_of_kinds(federation)
        assert federation.party_config("bank").exists()
        wait_until(lambda: len(services_of(federation.folder)) == 5)
        raise ZeroDivisionError
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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_everything_ends_with_the_program_however_it_ends(number):
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environ())
    folder = Path(program.stdout.readline().strip())
    wait_until(lambda: len(services_of(folder)) == 5)  # a child that was just forked has its parent's command
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
