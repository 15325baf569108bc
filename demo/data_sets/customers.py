"""Made-up customers of a bank, a clinic and a shop: others at each, in other orders, spellings and forms of tables.

Of each party's customers about two thirds are everybody's. The bank's table has a category and gaps, the clinic's gaps
and rows of nobody, the shop's several rows of one customer. Bounds are public constants.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from demo.local_deployment import LocalTable
from demo.throwaway_postgres import NoPostgresError, throwaway_cluster

PARTIES = ("bank", "clinic", "shop")
TABLE_NAME = "customers"
SEED = 20260207
LABEL = "shop.loyal"
SPARE_ROWS = 1.2
"""A party declares at most so many times the rows that it has, so that nobody learns how many it has."""

MATCHING = """
[tables.matching]
columns = ["number", "born"]
normalise = { number = ["trim", "integer"], born = ["date"] }
reveal = true
"""
SECTIONS = {
    "bank": MATCHING
    + """date_formats = { born = "%d.%m.%Y" }

[tables.columns]
region = { kind = "category", values = ["north", "south"], others = "other" }
income = { kind = "number", bounds = [0, 100], missing = "column", gaps = ["n/a"] }
""",
    "clinic": MATCHING
    + """missing = "leave out"

[tables.columns]
smoker = { kind = "yes/no", missing = { value = "no" } }
stays = { kind = "integer", bounds = [0, 10] }
""",
    "shop": MATCHING
    + """duplicates = { visits = "sum", loyal = "max" }

[tables.columns]
visits = { kind = "integer", bounds = [0, 40] }
loyal = { kind = "yes/no" }
""",
}


@dataclass(frozen=True)
class Customers:
    """What `write_customers` made.

    Attributes:
        tables: party to its table.
        sources: party to where its table lies, in words.
        n_customers: party to how many it has.
        common: party to the encoded columns of the customers that all have, in one order: what nobody in the federation
            has. For comparison only.
    """

    tables: dict[str, list[LocalTable]] = field(repr=False)
    sources: dict[str, str]
    n_customers: dict[str, int]
    common: dict[str, NDArray[np.float64]] = field(repr=False)

    @property
    def n_common(self) -> int:
        """How many customers all have."""
        return len(self.common["shop"])


def write_customers(stack: ExitStack, folder: Path, n_customers: int) -> Customers:
    """Make up customers and write each party's table.

    Args:
        stack: on leaving it, the shop's database ends.
        folder: for the files.
        n_customers: customers of each party.
    """
    n_common = 2 * n_customers // 3
    rng = np.random.default_rng(SEED)
    n_all = n_common + 3 * (n_customers - n_common)
    age, well_off = rng.uniform(18, 90, n_all), rng.random(n_all)
    smokes, noise = rng.random(n_all) < 0.25 + 0.3 * (well_off < 0.4), rng.normal(0, 1, n_all)
    everybody = pl.DataFrame(
        {
            "number": np.arange(1, n_all + 1),
            "born": pl.Series(20_500 - 365.25 * age).cast(pl.Int32).cast(pl.Date),
            "region": np.array(["north", "south", "abroad"])[rng.integers(0, 3, n_all)],
            "income": np.round(20 + 60 * well_off + 5 * rng.normal(0, 1, n_all), 2),
            "is_gap": rng.random(n_all) < 0.08,
            "smoker": smokes,
            "is_silent": rng.random(n_all) < 0.1,
            "stays": np.clip(rng.poisson(1 + 2 * smokes), 0, 10),
            "visits": np.clip(rng.poisson(6 + 12 * well_off), 0, 40),
            "loyal": 4 * well_off - 1.5 * smokes - 1.3 + noise > 0,
        }
    )
    rest = np.array_split(np.arange(n_common, n_all), 3)
    own = {p: rng.permutation(np.r_[:n_common, one]) for p, one in zip(PARTIES, rest, strict=True)}
    frames = {party: everybody[rows] for party, rows in own.items()}
    sources = _write(stack, folder, frames)
    return Customers(
        tables={p: [_table(p, path, section, n_customers)] for p, (path, section, _) in sources.items()},
        sources={party: words for party, (_, _, words) in sources.items()},
        n_customers={party: len(rows) for party, rows in own.items()},
        common=_common(everybody.head(n_common)),
    )


def _table(party: str, path: Path | None, section: str, n_customers: int) -> LocalTable:
    rows = (n_customers // 2, int(SPARE_ROWS * n_customers))
    return LocalTable(TABLE_NAME, path, {}, rows, sections=section + SECTIONS[party])


def _common(frame: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return what analyses see of the customers that all have, as the sections say."""
    flag = pl.Float64
    gap = frame["is_gap"].to_numpy()
    bank = [(frame["region"] == name).cast(flag).to_numpy() for name in ("north", "south", "abroad")]
    bank += [np.where(gap, 0.0, frame["income"].to_numpy()), gap.astype(float)]
    clinic = [(frame["smoker"] & ~frame["is_silent"]).cast(flag).to_numpy(), frame["stays"].cast(flag).to_numpy()]
    shop = [frame["visits"].cast(flag).to_numpy(), frame["loyal"].cast(flag).to_numpy()]
    return {p: np.column_stack(columns) for p, columns in zip(PARTIES, (bank, clinic, shop), strict=True)}


def _write(stack: ExitStack, folder: Path, frames: dict[str, pl.DataFrame]) -> dict[str, tuple[Path | None, str, str]]:
    """Write the tables; return of each its path or the section of its source, and where it lies, in words."""
    bank, clinic = folder / "bank.csv", folder / "clinic.parquet"
    frames["bank"].select(
        pl.format(" {}", pl.col("number").cast(pl.String).str.zfill(6)).alias("number"),
        pl.col("born").dt.strftime("%d.%m.%Y"),
        "region",
        pl.when("is_gap").then(pl.lit("n/a")).otherwise(pl.col("income").cast(pl.String)).alias("income"),
    ).write_csv(bank)
    named = frames["clinic"].select(
        "number", "born", pl.when(~pl.col("is_silent")).then("smoker").alias("smoker"), "stays"
    )
    nobodys = named.head(5).with_columns(number=pl.lit(None, dtype=pl.Int64))
    pl.concat([named, nobodys]).write_parquet(clinic)
    once = frames["shop"].select(pl.col("number").cast(pl.String), "born", "visits", "loyal")
    half = pl.col("visits") // 2  # every other customer comes in two rows
    twice = once.gather_every(2)
    rows = pl.concat([once.gather_every(2, 1), twice.with_columns(half), twice.with_columns(pl.col("visits") - half)])
    path, section, words = _shop(stack, folder, rows)
    return {
        "bank": (bank, "", "CSV; dates as 31.12.1980, numbers with leading zeros, gaps as n/a"),
        "clinic": (clinic, "", "Parquet; dates as dates, 5 rows without a number, smokers who did not say"),
        "shop": (path, section, words),
    }


def _shop(stack: ExitStack, folder: Path, rows: pl.DataFrame) -> tuple[Path | None, str, str]:
    try:
        url = stack.enter_context(throwaway_cluster())
    except NoPostgresError as error:
        path = folder / "shop.arrow"
        rows.write_ipc(path)
        return path, "", f"Arrow, as there is no PostgreSQL here ({error}); every other customer in two rows"
    _fill(url, rows.rows())
    section = f'\n[tables.source]\nkind = "postgres"\nurl = "{url}"\ntable = "customers"\norder_by = ["number"]\n'
    return None, section, "PostgreSQL; every other customer in two rows"


def _fill(url: str, rows: Sequence[tuple[object, ...]]) -> None:
    import psycopg

    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE customers (number text, born date, visits integer, loyal boolean)")
        with cursor.copy("COPY customers FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
