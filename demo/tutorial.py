"""`moiety.local_federation`: a federation on this machine for tutorials, over tables of one's own.

A process of its own keeps the services and waits for the program that asked for them: when that ends, however it ends,
its end of a pipe closes, the services are stopped and their folder is removed.
"""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, get_args

from analyses.job.job import MatchingKind
from analyst.client import Client
from demo.local_deployment import ANALYST_NAME, DeploymentError, LocalDeployment, LocalRatings, LocalTable
from demo.loopback import toml
from dp.cost.views import UNIT

SPECIFICATION = "federation.json"
READY = "ready"
STOP_S = 120.0


@dataclass(frozen=True)
class Table:
    """A table of one party of a local federation. It says what a section `[[tables]]` of `party.toml` says.

    Attributes:
        name: name that questions use.
        data: a data frame of polars or pandas, a mapping of columns, or the path of a `.csv`, `.csv.gz` or `.parquet`
            file. `draft()` infers a description from names and types.
        rows: the least and the most rows that it may have; public.
        bounds: column to its public lower and upper bound; a column without bounds or a kind cannot be asked for.
        columns: column to its kind, gaps and other values, the fields of `[tables.columns]`.
        source: how the file is written where that is not usual, the fields of `[tables.source]` but `path`.
        filters: name to what rows must pass, the fields of `[tables.filters]`.
        ratings: fields of `kind = "ratings"`, for a table of ratings; it has `bounds` of its ratings and no columns.
        id_column: the column that names the rows, if there is one.
        on_request: columns that only questions get that name them.
        person_column, most_rows_per_person: whose the rows are, and how many of one person count, if it says so.
        unit: unit of its privacy budget.
        show_budget: whether the analyst sees in the catalogue what remains of it.
        matching: what identifies its rows, the fields of `[tables.matching]`.
    """

    name: str
    data: Any = field(repr=False)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rows: tuple[int, int] | None = None
    id_column: str | None = None
    on_request: Sequence[str] = ()
    person_column: str | None = None
    most_rows_per_person: int | None = None
    unit: str = UNIT
    show_budget: bool = False
    matching: Mapping[str, Any] | None = None
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    filters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ratings: Mapping[str, Any] | None = None

    def draft(self) -> str:
        """Return a section of `party.toml` inferred from the names and types of the columns, never from values.

        It is what `moiety table draft` writes, with the questions that the owner must answer.

        Raises:
            ValueError: the data cannot be read as a table.
        """
        from cli.configuration.table_draft import drafted
        from party.tables.sources.source import SourceError

        with tempfile.TemporaryDirectory(prefix="moiety-") as folder:
            try:
                path, encoding, rated = self._path(Path(folder)), self.source.get("encoding"), self.ratings is not None
                return "\n".join(drafted(path, self.name, encoding, of_ratings=rated))
            except SourceError as error:
                raise ValueError(f"table {self.name!r}: {error}") from error

    def in_folder(self, folder: Path) -> LocalTable:
        """Return it as services find it; data that are in memory are written to a file.

        Raises:
            ValueError: it has no column of a name that it states, or columns of different lengths.
        """
        path: Path | None = self._path(folder)
        bounds = {name: (float(low), float(high)) for name, (low, high) in self.bounds.items()}
        options = (self.id_column, tuple(self.on_request), self.person_column, self.most_rows_per_person, self.unit)
        rows = None if self.rows is None else (int(self.rows[0]), int(self.rows[1]))
        named = {"matching": self.matching or {}, "columns": self.columns, "filters": self.filters}
        if self.source:
            kind = "parquet" if str(path).endswith(".parquet") else "csv"
            named["source"], path = {"kind": kind, "path": str(path), **self.source}, None
        sections = toml({}, {f"tables.{name}": fields for name, fields in named.items() if fields})
        ratings = None if self.ratings is None else LocalRatings(**self.ratings)
        if ratings is not None and isinstance(ratings.items, Mapping) and "file" in ratings.items:
            ratings = replace(ratings, items={"file": str(Path(ratings.items["file"]).resolve())})
        return LocalTable(
            self.name, path, bounds, rows, *options, ratings=ratings, show_budget=self.show_budget, sections=sections
        )

    def _path(self, folder: Path) -> Path:
        """Return the file of the data; data that are in memory are written to one."""
        return Path(self.data).resolve() if isinstance(self.data, str | Path) else self._written(folder)

    def _written(self, folder: Path) -> Path:
        names = list(self.data if isinstance(self.data, Mapping) else self.data.columns)
        matched = [] if self.matching is None else self.matching.get("columns", [])
        keys = [name for name in (self.id_column, self.person_column) if name is not None]
        rated = [] if self.ratings is None else [self.ratings[name] for name in ("user", "item", "rating")]
        wanted = [*self.bounds, *self.columns, *keys, *matched, *rated]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ValueError(f"table {self.name!r} has no column {missing[0]!r}; it has {', '.join(map(str, names))}")
        path = folder / f"{self.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            try:
                writer.writerows(zip(*(list(self.data[name]) for name in names), strict=True))
            except ValueError:
                raise ValueError(f"table {self.name!r} has columns of different lengths") from None
        return path


class LocalFederation:
    """A federation that runs on this machine; ends with `stop()`, with the `with` block, or with the program.

    Nobody is protected: one program holds the tables of all parties. It is there to learn and to try.

    Args:
        tables: party to its table or tables; there must be at least three parties.
        budget: epsilon and delta of every table.
        policy: party to sections of its configuration, for instance `{"bank": {"policy.limits": {...}}}`; by default
            every question that the budget covers is answered.

    Raises:
        ValueError: a table cannot be used as it is described, or there are too few parties.
        DeploymentError: a service did not start; the text says why.
    """

    def __init__(
        self,
        tables: Mapping[str, Table | Sequence[Table]],
        *,
        budget: tuple[float, float] = (10.0, 1e-6),
        policy: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        if len(tables) < 3:
            few = f"a federation needs at least three parties, and these are {len(tables)}"
            raise ValueError(f'{few}; one that only computes has no table: {{..., "helper": []}}')
        self.folder = Path(tempfile.mkdtemp(prefix="moiety-"))
        try:
            self._write_specification(tables, budget, policy or {})
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        command = [sys.executable, "-m", "demo.tutorial", str(self.folder)]
        keeper = subprocess.Popen(  # noqa: S603 -- our own interpreter and module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._end = weakref.finalize(self, _end, keeper)
        assert keeper.stdout is not None, "the keeper's output is a pipe"
        try:
            said = json.loads(keeper.stdout.readline() or "null")
        except BaseException:  # an interrupt, for instance
            self._end()
            raise
        if said != READY:
            self._end()
            raise DeploymentError(said or "the services ended at their start")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<federation in {self.folder}{'' if self._end.alive else ', stopped'}>"

    @property
    def client_config(self) -> Path:
        """The analyst's configuration, for commands and for further clients."""
        return self.folder / "services" / "client.toml"

    def party_config(self, party: str) -> Path:
        """Return a party's configuration, for the commands of its owner: `moiety budget show --config`."""
        return self.folder / "services" / f"{party}.toml"

    @cached_property
    def client(self) -> Client:
        """A client of its analyst."""
        return Client(self.client_config)

    def stop(self) -> None:
        """Stop all services and remove their folder, results and budgets with it. It may be called again."""
        if "client" in self.__dict__:
            self.client.close()
        self._end()

    def _write_specification(
        self,
        tables: Mapping[str, Table | Sequence[Table]],
        budget: tuple[float, float],
        policy: Mapping[str, Mapping[str, Mapping[str, Any]]],
    ) -> None:
        held: dict[str, list[dict[str, Any]]] = {}
        for party, own in tables.items():
            folder = self.folder / "tables" / party
            folder.mkdir(parents=True)
            described = [table.in_folder(folder) for table in ([own] if isinstance(own, Table) else own)]
            held[party] = [asdict(table) | {"path": table.path and str(table.path)} for table in described]
        at_once = {
            "max_epsilon_per_job": budget[0],
            "analysts": [ANALYST_NAME],
            "matching": list(get_args(MatchingKind)),
        }
        policies = {party: {"policy.automatic": at_once, **policy.get(party, {})} for party in tables}
        text = json.dumps({"tables": held, "budget": list(budget), "policy": policies}, allow_nan=False)
        (self.folder / SPECIFICATION).write_text(text)


local_federation = LocalFederation
"""The name under which tutorials know it: `with moiety.local_federation(...) as federation:`."""


def _end(keeper: "subprocess.Popen[bytes]") -> None:
    assert keeper.stdin is not None, "the keeper's input is a pipe"
    keeper.stdin.close()  # nothing was written, so nothing can be lost here
    try:
        keeper.wait(STOP_S)
    finally:
        if keeper.poll() is None:
            keeper.kill()
            keeper.wait()
        if keeper.stdout is not None:
            keeper.stdout.close()


def keep(folder: Path, asked: IO[bytes], said: IO[str]) -> None:
    """Run the services of a folder until nobody asks for them any more; then remove the folder.

    Args:
        folder: with the specification.
        asked: ends when the program does that wants the services.
        said: gets one line of JSON: that they are ready, or why they are not.
    """
    try:
        given = json.loads((folder / SPECIFICATION).read_text())
        tables = {party: [_table(one) for one in own] for party, own in given["tables"].items()}
        services = folder / "services"
        services.mkdir()
        budget = (given["budget"][0], given["budget"][1])
        with LocalDeployment(services, tables, federation="tutorial", budget=budget, policy=given["policy"]):
            print(json.dumps(READY), file=said, flush=True)
            asked.read()
    except DeploymentError as error:
        print(json.dumps(str(error)), file=said, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _table(given: Mapping[str, Any]) -> LocalTable:
    changed = {
        "path": given["path"] and Path(given["path"]),
        "bounds": {name: (low, high) for name, (low, high) in given["bounds"].items()},
        "rows": given["rows"] and tuple(given["rows"]),
        "ratings": given["ratings"] and LocalRatings(**given["ratings"]),
    }
    return LocalTable(**{**given, **changed})


def main() -> None:
    """Be the process that keeps the services."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves what was entered, and so ends the services
    os.chdir("/")
    keep(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout)


if __name__ == "__main__":
    main()
