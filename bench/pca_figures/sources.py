"""Tables on which principal components are measured: those of [SPCA24] that are free, and stand-ins of their sizes."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analyses.job.job import Job
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from bench.datasets.bundled import EXTRA_FOLDER_VARIABLE
from bench.datasets.order import trusted_order
from demo.data_sets.kdd import NORM_BOUNDS, ROW_NORM, KddParties, write_kdd_parties

Floats = NDArray[np.float64]
Blocks = Iterable[Sequence[Table]]
"""The same owners' tables, some rows after the others."""

PARTIES = ("one", "two", "three")
ROWS_PER_BLOCK = 16_384
N_QUESTIONS, N_CHOICES, N_KINDS = 34, 24, 12
N_PERSONS = 145_585


@dataclass(frozen=True)
class Source:
    """A table in the hands of three parties.

    Attributes:
        what: rows, columns, and where it is from.
        figure: table of the source in whose place it stands.
        blocks: its rows.
        row_norm: public bound of the norm of a row of scaled columns.
        norm_bounds: party to its part of it.
        gammas: how finely values are rounded, in parts of the longest row.
        epsilons: against the coordinator.
        components: numbers of components, increasing.
        n_runs: of ours and of central privacy.
        n_local_runs: of local noise.
    """

    what: str
    figure: str
    blocks: Callable[[], Blocks]
    row_norm: float
    norm_bounds: dict[str, float]
    gammas: tuple[int, ...]
    epsilons: tuple[float, ...]
    components: tuple[int, ...]
    n_runs: int
    n_local_runs: int

    def job(self, schemas: Sequence[BlockSchema], gamma: int) -> Job:
        """Return the job for the largest number of components; about the origin, as the source does not centre."""
        return job_of(schemas, max(self.components), gamma, row_norm=self.row_norm, norm_bounds=self.norm_bounds)


def job_of(schemas: Sequence[BlockSchema], components: int, gamma: int, **norms: object) -> Job:
    """Return a job about the origin, of which one party may collude; its target is filled in later."""
    return Job.model_validate(
        {
            "analysis": "pca",
            "colluding": 1,
            "inputs": [{"party": schema.party, "table": "rows"} for schema in schemas],
            **trusted_order(schemas),
            "privacy": {"epsilon": 1.0, "delta": 1e-5, "view": "coordinator"},
            "parameters": {
                "components": components,
                "center": False,
                "gamma": gamma,
                "max_rows": max(schema.rows[1] for schema in schemas if schema.rows is not None),
                **norms,
            },
        }
    )


def kdd_parties(rows: int | None = None) -> KddParties:
    """Return the connections; `rows` of them, or all."""
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder:
        return write_kdd_parties(Path(folder), rows=rows)


def kdd(rows: int | None = None) -> Blocks:
    """Yield the connections at once."""
    yield kdd_parties(rows).in_memory()


def split(values: Floats, n_rows: int) -> list[Table]:
    """Return values in 0..1, their columns spread evenly over the parties: some rows of a table of `n_rows`."""
    tables, start = [], 0
    for party, part in zip(PARTIES, np.array_split(values, len(PARTIES), axis=1), strict=True):
        names = [f"x{at}" for at in range(start, start + part.shape[1])]
        columns = tuple(ColumnSchema(name=name, lower=0, upper=1) for name in names)
        tables.append(Table(BlockSchema(party=party, columns=columns, rows=(1, n_rows)), part))
        start += part.shape[1]
    return tables


def persons(n_rows: int = N_PERSONS) -> Iterator[list[Table]]:
    """Yield answers to questions of a census, encoded as 816 columns of 0 and 1: made up, of persons of 12 kinds."""
    rng = np.random.default_rng(3)
    kinds = rng.dirichlet(np.full(N_KINDS, 0.7))
    answers = rng.dirichlet(1 / np.arange(1, N_CHOICES + 1), size=(N_KINDS, N_QUESTIONS)).cumsum(axis=-1)
    for start in range(0, n_rows, ROWS_PER_BLOCK):
        size = min(ROWS_PER_BLOCK, n_rows - start)
        kind = rng.choice(N_KINDS, size, p=kinds)
        chosen = (rng.random((size, N_QUESTIONS, 1)) > answers[kind]).sum(axis=-1).clip(0, N_CHOICES - 1)
        values = np.zeros((size, N_QUESTIONS, N_CHOICES))
        np.put_along_axis(values, chosen[..., None], 1.0, axis=-1)
        yield split(values.reshape(size, -1), n_rows)


def papers() -> Blocks:
    """Yield the papers of CiteSeer's largest connected component: which of 3,703 words each has."""
    kept = _arrays("citeseer/citeseer_lcc")
    n_rows, n_words = (int(n) for n in kept["shape"])
    values = np.zeros((n_rows, n_words))
    values[np.repeat(np.arange(n_rows), np.diff(kept["indptr"])), kept["indices"]] = 1.0
    yield split(values, n_rows)


def genes() -> Blocks:
    """Yield logarithms of the expressions of 5,748 genes in 171 samples, scaled to 0..1 by one public range."""
    values = np.log2(_arrays("gene_expression/tox171")["X"].astype(np.float64).clip(1, 1 << 16)) / 16
    yield split(values, len(values))


def _arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(Path(os.environ[EXTRA_FOLDER_VARIABLE]) / f"{name}.npz", allow_pickle=False) as kept:
        return {key: kept[key] for key in kept.files}


SOURCES: dict[str, Source] = {
    "KDD Cup 99": Source(
        "145,586 distinct connections, 118 columns; the source has 195,666 x 117",
        "KDDCUP",
        kdd,
        ROW_NORM,
        dict(NORM_BOUNDS),
        (2**4, 2**6, 2**12),
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        (2, 5, 10, 20),
        20,
        5,
    ),
    "census, made up": Source(
        f"{N_PERSONS:,} made-up persons, 816 columns; the source has the ACSIncome table of California, as large",
        "ACSIncome",
        persons,
        N_QUESTIONS**0.5,
        {},
        (2**4, 2**6, 2**12),
        (0.25, 1.0, 4.0, 16.0),
        (5, 10, 20),
        3,
        1,
    ),
    "CiteSeer": Source(
        "2,110 papers, 3,703 words, the very table of the source",
        "CiteSeer",
        papers,
        6.0,
        {},
        (2**4, 2**8, 2**12),
        (4.0, 16.0),
        (5, 10, 20),
        2,
        1,
    ),
    "genes": Source(
        "171 samples, 5,748 genes (TOX-171); the source has 801 x 20,531",
        "Gene",
        genes,
        50.0,
        {},
        (2**8, 2**14),
        (4.0, 16.0),
        (5, 10, 20),
        1,
        1,
    ),
}
"""Name to source; the last two lie where MOIETY_DATA names a folder that has them."""
