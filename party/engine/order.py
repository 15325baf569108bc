"""What a party tells its own worker, and what it hears: JSON, between programs of one owner. No key is in it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from party.tables.config import TableConfig
from party.tables.sources.file import TableFile
from party.tables.sources.registry import SOURCES
from service.reach.proxy_config import ProxyConfig
from service.reach.relay_config import RelayEntry
from service.settings import TlsFiles


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkerSettings(_Message):
    """Who a worker is, and where it listens.

    Attributes:
        federation, party: names of the federation and of the worker's party.
        tls: its certificate, which must be that of `worker/PARTY`.
        proxy: through which it dials workers of other parties; directly where absent.
        relays: relays by which it dials workers of parties that only dial out, in this order.
        dials_out: whether it only dials out itself: it listens on loopback, and is reached by these relays.
        host, ports: it listens on the first port that is free.
        blas_threads: threads of its arithmetic.
    """

    federation: str
    party: str
    tls: TlsFiles
    proxy: ProxyConfig | None = None
    relays: tuple[RelayEntry, ...] = ()
    dials_out: bool = False
    host: str
    ports: tuple[int, ...]
    blas_threads: int = 1


class TableOrder(_Message):
    """Which rows of the owner's table a worker reads.

    Attributes:
        table: the owner's declaration of its columns, and where they are stored (`declaration_of`).
        version: version of its source, which the party found before it read the table.
        counting: which of the rows count, packed bits as hexadecimal text; None where all do. Private.
    """

    table: dict[str, Any]
    version: str
    counting: str | None = Field(default=None, repr=False)


class ShardOrder(_Message):
    """One attempt at one shard.

    Attributes:
        session_id: id of the workers' session.
        terms: what they must have in common, as hexadecimal text.
        start, stop: the rows of the joint table.
        me: number of this party.
        names: member number to name, of all parties of the job.
        hosts: member number to the hosts on which its workers may be dialled (`service.reach.hosts`), of all others.
        by_relays: members whose workers may be dialled by our relays.
        job_json, schemas_json: JSON from which the worker computes the plan of the job.
        deadline_s: deadline of the job, in seconds.
        table: what to read; None where the party brings no columns.
    """

    session_id: str
    terms: str
    start: int
    stop: int
    me: int
    names: dict[int, str]
    hosts: dict[int, tuple[str, ...]]
    by_relays: tuple[int, ...] = ()
    job_json: str
    schemas_json: tuple[str, ...]
    deadline_s: float
    table: TableOrder | None = None


def declaration_of(table: TableConfig) -> dict[str, Any]:
    """Return as much of the declaration of a table in files as its reader needs: no ids, persons, filters or budgets.

    Paths are absolute: on a machine of a cluster they mean the same only if it sees the same files.
    """
    source = table.make_source()
    if not isinstance(source, TableFile):
        raise ValueError(f"table {table.name!r} is not in a file")
    kind = next(name for name, made in SOURCES.items() if type(source) is made)
    fields = source.model_dump(mode="json") | {"kind": kind, "path": str(source.path.absolute())}
    columns = {name: one.model_dump(mode="json") for name, one in table.columns.items()}
    return {"name": table.name, "source": fields, "bounds": dict(table.bounds), "columns": columns}


def packed(counting: NDArray[np.bool_] | None) -> str | None:
    """Return which rows count as text."""
    return None if counting is None else np.packbits(counting).tobytes().hex()


def unpacked(text: str | None, n_rows: int) -> NDArray[np.bool_] | None:
    """Return what was packed, shape (n_rows,)."""
    if text is None:
        return None
    bits = np.frombuffer(bytes.fromhex(text), dtype=np.uint8)
    return np.unpackbits(bits, count=n_rows).astype(np.bool_)


class WorkerFailedError(Exception):
    """A worker cannot do its part, and no other one could; the text is for the owner's log alone."""


class Answer(_Message):
    """How an attempt ended at a worker.

    Attributes:
        share: share of the shard's triangle, hexadecimal text of little-endian words; None where there is none. Secret.
        counts: counts of the owner's rows. Private.
        sent, received: payload bytes by stage.
        kind: kind of the failure: an error of `mpc.errors` by its name, `table` or `failed`; empty where it is done.
        member: at fault for an error that names one.
        stage, what: stage and text of the failure; where the kind is an error of `mpc.errors`, other members read them.
        cause: what only the owner's log has of the failure.
    """

    share: str | None = Field(default=None, repr=False)
    counts: dict[str, Any] = Field(default_factory=dict, repr=False)
    sent: dict[str, int] = Field(default_factory=dict)
    received: dict[str, int] = Field(default_factory=dict)
    kind: str = ""
    member: int = 0
    stage: str = ""
    what: str = ""
    cause: str = ""
