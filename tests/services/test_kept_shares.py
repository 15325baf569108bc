"""Shares of rows that a job returns to are in a file where they would take too much memory, and in no folder's list."""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from federation import tables_of
from watched_services import watched_services

from analyses.job.job import Job
from party import reading
from party.tables.kept_values import kept_words
from party.tables.sources.source import SourceError

PARTIES = ("bank", "hospital", "telco")
STEPS = Job.model_validate(
    {
        "analysis": "logistic-regression",
        "inputs": [{"party": name, "table": "people"} for name in PARTIES],
        "privacy": {"epsilon": 50.0, "delta": 1e-6},
        "parameters": {"label": "bank.x0", "method": "gradient", "iterations": 2, "max_rows": 1_000_000},
    }
)


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "run").mkdir()
    values = {name: np.random.default_rng(seed).random((60, 2)) for seed, name in enumerate(PARTIES)}
    values["bank"][:, 0] = values["bank"][:, 0].round()
    tables = tables_of(values, tmp_path)
    bank = tables["bank"][0]
    return tables | {"bank": [replace(bank, bounds=bank.bounds | {"x0": (0.0, 1.0)})]}


async def test_shares_lie_in_a_file_without_a_name_of_the_data_folder(tmp_path, monkeypatch, tables):
    asked = []

    def in_a_file(shape, most_bytes, folder):
        words = kept_words(shape, 0, folder)
        asked.append((shape, most_bytes, folder.name, os.listdir(folder)))
        return words

    monkeypatch.setattr(reading, "kept_words", in_a_file)
    async with watched_services(tmp_path / "run", tables, monkeypatch) as services:
        seen = await services.run(STEPS)
        folders = {services.deployment.data_dir(name).name for name in PARTIES}
    assert seen.view.state == "DONE", seen.view.reason
    assert {folder for _, _, folder, _ in asked} == folders
    for shape, most_bytes, _, names in asked:
        assert shape[1:] == (60, 6)
        assert most_bytes == 128 << 20
        assert all(
            name.split(".")[0] in ("installation", "ledger", "batches", "reports", "approvals") for name in names
        )


async def test_a_folder_without_room_fails_the_job_by_its_party_and_costs_nothing(tmp_path, monkeypatch, tables):
    def full(shape, most_bytes, folder):
        if folder.name == "telco" or folder.parent.name == "telco":
            raise SourceError("no place")
        return kept_words(shape, most_bytes, folder)

    monkeypatch.setattr(reading, "kept_words", full)
    async with watched_services(tmp_path / "run", tables, monkeypatch) as services:
        seen = await services.run(STEPS)
        ledgers = [services.deployment.data_dir(name) / "ledger.sqlite" for name in PARTIES]
        for ledger in ledgers:
            with closing(sqlite3.connect(ledger)) as entries:
                kinds = {json.loads(text)["kind"] for (text,) in entries.execute("SELECT text FROM entries")}
            assert "reserved" in kinds
            assert "committed" not in kinds
    assert seen.view.state == "FAILED"
    assert "the data folder of party 'telco' cannot be used" in seen.view.reason
    assert "no place" not in seen.view.reason
