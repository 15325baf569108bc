"""Rows that parties in containers hold in other orders, and not all of them, are matched, in both ways."""

import json

import numpy as np
import polars as pl
import pytest

from demo.data_sets.kdd import write_kdd_parties
from demo.loopback import toml

pytestmark = pytest.mark.compose

COLUMNS = {"carrier": ("duration", "flag_SF"), "host": ("hot", "logged_in"), "monitor": ("count", "same_srv_rate")}


@pytest.fixture(scope="module")
def common(tmp_path_factory):
    """The rows that all parties have, as deploy/compose/tables makes them: shape (rows, 6)."""
    folder = tmp_path_factory.mktemp("visitors")
    write_kdd_parties(folder)
    frames = [pl.read_parquet(folder / f"{party}.parquet").head(3000).select(names) for party, names in COLUMNS.items()]
    has_all = np.arange(3000) % 7 > 2
    return np.hstack([frame.to_numpy() for frame in frames])[has_all]


@pytest.mark.parametrize("kind", ["revealed", "secret"])
def test_the_rows_that_all_have_are_found_among_the_containers(federation, common, kind, tmp_path):
    job = {"analysis": "pca", "privacy": {"epsilon": 8.0, "delta": 1e-6}, "matching": {"kind": kind}}
    inputs = "".join("\n[[inputs]]\n" + toml({"party": party, "table": "visitors"}) for party in COLUMNS)
    (tmp_path / "job.toml").write_text(toml(job | {"parameters": {"components": 2}}) + inputs)
    view = json.loads(federation.submit_from_host(tmp_path / "job.toml", "--format", "json"))
    assert view["state"] == "DONE", view["reason"]
    assert view["result"]["privacy"]["matching"]["kind"] == kind
    assert view["result"]["n_rows"] == pytest.approx(len(common), abs=0.05 * len(common))
    most = np.array([3600, 1, 16, 1, 511, 1])
    off = np.abs(np.array(view["result"]["mean"]) - np.clip(common, 0, most).mean(axis=0)) / most
    assert off.max() < 0.03
