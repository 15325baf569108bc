"""Tables of three owners, each in its own order, that have some rows in common: for jobs that match rows in secret."""

import numpy as np

from analyses.job.job import Job
from analyses.job.matching import MatchingSchema
from analyses.job.row_ids import digests_of_ids
from analyses.job.schema import BlockSchema, ColumnSchema, Table

OWNERS = ("bank", "hospital", "telco")
MOST = {"bank": 400, "hospital": 500, "telco": 600}
N_OWN = 60
"""Rows that nobody else has, of each owner."""

N_OF_TWO = 20
"""Rows that two owners have."""

COUNTS, REALS = "counts", "reals"


def overlapping_tables(n_common: int, kind: str = REALS) -> dict[str, Table]:
    """Tables of real columns and a label of the first owner, or of one column of counts 0 .. 3 each."""
    names, values = names_and_values(n_common, kind)
    return {party: _table(party, names[party], values[party], kind) for party in OWNERS}


def pooled(n_common: int, kind: str = REALS) -> np.ndarray:
    """The rows that all have, all columns, in no particular order: what the owners would pool."""
    names, values = names_and_values(n_common, kind)
    rows = [dict(zip(names[p], values[p], strict=True)) for p in OWNERS]
    return np.array([np.concatenate([of[f"common {i}"] for of in rows]) for i in range(n_common)])


def secret_job(analysis: str, parameters: dict, **changes) -> Job:
    """A job on the three tables with hardly any noise."""
    fields = {
        "analysis": analysis,
        "inputs": [{"party": party, "table": "people"} for party in OWNERS],
        "privacy": {"epsilon": 2000.0, "delta": 1e-5, "view": "coordinator"},
        "parameters": parameters,
        "matching": {"kind": "secret"},
    }
    return Job.model_validate(fields | changes)


def names_and_values(n_common: int, kind: str = REALS) -> tuple[dict[str, list[str]], dict[str, np.ndarray]]:
    """The names and the values of each owner's rows, in its own order; ids are digests of the names."""
    rng = np.random.default_rng(7)
    pull = 0.3 * rng.normal(size=(n_common, 1))
    common = np.clip(0.3 * rng.normal(size=(n_common, 6)) + pull + 0.2, -1, 1)
    label = (common.sum(axis=1) + 0.3 * rng.normal(size=n_common) > 1.2).astype(float)
    names, values = {}, {}
    for number, party in enumerate(OWNERS):
        own = [f"common {i}" for i in range(n_common)] + [f"{party} {i}" for i in range(N_OWN)]
        own += [f"two {i}" for i in range(N_OF_TWO) if party != "telco"]
        rows = np.vstack([common[:, 2 * number : 2 * number + 2], rng.uniform(-1, 1, (len(own) - n_common, 2))])
        if kind == COUNTS:
            rows = np.rint(3 * np.abs(rows[:, :1]))
        elif party == OWNERS[0]:
            rows = np.column_stack([rows, np.concatenate([label, rng.integers(0, 2, len(own) - n_common)])])
        order = rng.permutation(len(own))
        names[party], values[party] = [own[i] for i in order], rows[order]
    return names, values


def _table(party: str, names: list[str], values: np.ndarray, kind: str) -> Table:
    if kind == COUNTS:
        columns = [ColumnSchema(name="x", lower=0, upper=3)]
    else:
        columns = [ColumnSchema(name=f"x{i}", lower=-1, upper=1) for i in range(2)]
        columns += [ColumnSchema(name="y", lower=0, upper=1)] if party == OWNERS[0] else []
    matching = MatchingSchema(recipe=(("trim",),), reveal=True)
    schema = BlockSchema(party=party, columns=tuple(columns), rows=(10, MOST[party]), matching=matching)
    return Table(schema, values, ids=digests_of_ids([names]))
