"""Workers of three parties, and orders to them, without the parties: real certificates, real endpoints."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from certificates import authority_in, tls_in
from job_builders import make_job
from worked_jobs import BOUNDS, OWNERS, local_tables

from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.pca import protocol as pca
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.opening import open_shares
from mpc.protocol.shards import Attempt, Shard
from party.engine.order import Answer, ShardOrder, TableOrder, WorkerSettings, declaration_of
from party.engine.row_stream import version_of
from party.tables.config import TableConfig
from service.identity import Role

FEDERATION = "acme"
N_ROWS = 10_000
SHARD = Shard(0, 4096, 9000)


class Setting:
    """Certificates, tables and a plan of three parties; `order` makes orders for their workers."""

    def __init__(self, folder: Path, *, n_rows: int = N_ROWS, shard: Shard = SHARD, ending: str = "parquet") -> None:
        self.folder, self.shard = folder, shard
        self.issue = authority_in(folder, FEDERATION)
        for name in OWNERS:
            self.issue(Role.WORKER, name)
        files = local_tables(folder, n_rows, ending)
        self.tables = {
            name: TableConfig(name="people", path=files[name][0].path, bounds=dict(files[name][0].bounds))
            for name in OWNERS
        }
        parameters = {"components": 2, "center": False, "gamma": 1024, "max_rows": 100_000}
        job = make_job(parameters=parameters)
        schemas = [
            BlockSchema(
                party=name,
                columns=tuple(
                    ColumnSchema(name=f"x{i}", lower=BOUNDS[0], upper=BOUNDS[1]) for i in range(OWNERS[name])
                ),
                has_ids=True,
                rows=(2, 100_000),
                workers=2,
            )
            for name in job.members
        ]
        self.plan = pca.ANALYSIS.plan(job, schemas)
        self.members = dict(enumerate(job.members, start=1))

    def settings(self, party: str, /, **changes: Any) -> WorkerSettings:
        fields = {"federation": FEDERATION, "party": party, "host": "127.0.0.1", "ports": (0,)}
        return WorkerSettings.model_validate(fields | {"tls": tls_in(self.folder, Role.WORKER, party)} | changes)

    def order(
        self,
        me: int,
        *,
        number: int = 0,
        deadline_s: float = 600.0,
        version: str | None = None,
        by_relays: tuple[int, ...] = (),
    ) -> ShardOrder:
        """Return the order of an attempt to the worker of a member."""
        attempt = Attempt("job-1", hashlib.sha256(b"binding").digest(), self.shard, number)
        table = self.tables[self.members[me]]
        return ShardOrder(
            session_id=attempt.session_id,
            terms=attempt.terms.hex(),
            start=self.shard.start,
            stop=self.shard.stop,
            me=me,
            names=self.members,
            hosts=dict.fromkeys(set(self.members) - set(by_relays), ("127.0.0.1",)),
            by_relays=by_relays,
            job_json=self.plan.job.canonical_json(),
            schemas_json=tuple(schema.canonical_json() for schema in self.plan.schemas),
            deadline_s=deadline_s,
            table=TableOrder(table=declaration_of(table), version=version or version_of(table)),
        )

    def values(self) -> dict[str, np.ndarray]:
        """Return the rows of the shard, by party."""
        rows = slice(self.shard.start, self.shard.stop)
        found = {}
        for name, table in self.tables.items():
            columns = [table.make_source().read([f"x{i}" for i in range(OWNERS[name])], [])]
            found[name] = np.column_stack([one.to_numpy() for one in columns[0]])[rows]
        return found

    def exact(self) -> np.ndarray:
        """Return the upper triangle of the shard's X^T X, of integers."""
        values = self.values()
        x = np.hstack([self.plan.quantise(member, values[name])[0] for member, name in self.members.items()])
        gram = x.T @ x
        return gram[np.triu_indices(len(gram))]

    def opened(self, answers: Mapping[int, Answer]) -> np.ndarray:
        """Return what the answers of all members are shares of; no party ever does that."""
        field = ResidueField(self.plan.n_primes)
        shares = {}
        for member, answer in answers.items():
            assert answer.kind == "", answer
            words = np.frombuffer(bytes.fromhex(answer.share or ""), dtype="<u8").astype(np.uint64)
            shares[member] = words.reshape(field.n_words, -1)
        return field.decode(open_shares(shares, 2 * self.plan.job.t, field).words)
