"""Ledgers as version 1 wrote them: costs in the coalition's view alone, no orders, no number of colluding parties."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ledgers import UNIT

from dp.cost.events.record import record_of
from ledger.budget import Budget
from ledger.counter import Head, LedgerCounter
from ledger.entry import genesis
from ledger.sql_store import LedgerFile

LABEL = b"moiety privacy ledger entry, version 1\0"


def budget_set(budget: Budget, *, dataset="visits", reason="first") -> dict[str, Any]:
    return {"kind": "budget", "dataset": dataset, "budget": asdict(budget), "reason": reason}


def reserved(job_id: str, *events, analysis="pca", unit=UNIT, dataset="visits", analyst="ada") -> dict[str, Any]:
    return {
        "kind": "reserved",
        "job_id": job_id,
        "dataset": dataset,
        "analyst": analyst,
        "analysis": analysis,
        "holder": "here",
        "consent": "policy",
        "unit": unit,
        "events": [record_of(event) for event in events],
    }


def committed(job_id: str) -> dict[str, Any]:
    return {"kind": "committed", "job_id": job_id}


def texts_of(documents: Sequence[dict[str, Any]], party: str = "north") -> list[tuple[int, str, str]]:
    """Sequence number, text and digest of each entry."""
    digest, rows = genesis(party), []
    for sequence, document in enumerate(documents, start=1):
        whole = {"sequence": sequence, "at_s": 0.0, **document}
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
        digest = hashlib.sha256(LABEL + bytes.fromhex(digest) + text.encode()).hexdigest()
        rows.append((sequence, text, digest))
    return rows


def write_ledger(folder: Path, *documents: dict[str, Any]) -> Head:
    """Write the files of a ledger of version 1; return its head."""
    rows = texts_of(documents)
    database = LedgerFile(folder / "ledger.sqlite")
    with database.transaction() as run:
        for row in rows:
            run("INSERT INTO entries (sequence, text, digest) VALUES (%s, %s, %s)", *row)
        run("PRAGMA user_version = 1")
    database.close()
    head = Head(rows[-1][0], rows[-1][2])
    counter = LedgerCounter(folder / "ledger.counter")
    counter.advance(head)
    counter.close()
    return head
