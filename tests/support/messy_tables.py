"""Four tables about the same people, as four offices would send them: other orders, spellings, gaps and forms."""

import datetime
import gzip
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

N_PEOPLE = 400
"""All four owners have them; each has 15 others too, under numbers that nobody else has."""

N_OTHERS = 15
FILES = {"bank": "Kunden 2026.csv", "clinic": "visits.parquet", "shop": "orders.csv.gz", "registry": "register.tsv"}
REGIONS = ["Nord", "Süd", "West"]
TARIFFS = ["1", "2", "3"]


def people() -> pl.DataFrame:
    """Return what is true of those whom all have: a row each, in the order of their numbers, without gaps.

    The illness that the clinic knows goes with the bank's incomes and the shop's orders, and with nothing else.
    """
    draw = np.random.default_rng(27)
    age, orders = draw.integers(18, 90, N_PEOPLE), draw.integers(0, 21, N_PEOPLE)
    income = np.round(draw.uniform(0, 100_000, N_PEOPLE), 2)
    ill = draw.random(N_PEOPLE) < 1 / (1 + np.exp(0.3 * (orders - 10) - (income - 50_000) / 20_000))
    return pl.DataFrame(
        {
            "number": np.arange(1, N_PEOPLE + 1) * 7,
            "age": age,
            "income": income,
            "orders": orders,
            "ill": ill,
            "region": draw.integers(0, 3, N_PEOPLE),
            "tariff": draw.integers(0, 3, N_PEOPLE),
        }
    )


def write_tables(folder: Path) -> dict[str, Path]:
    """Write the tables, the same bytes each time; return their files by owner."""
    paths = {owner: folder / name for owner, name in FILES.items()}
    bank, clinic, shop, registry = (_with_others(number) for number in range(4))
    day = datetime.date(2020, 1, 1)
    lines = ["Kundennummer;Einkommen;Kunde seit"]
    for one in bank.iter_rows(named=True):
        euros = "n/a" if one["number"] % 13 == 0 else f"{one['income']:,.2f}".translate(str.maketrans(",.", ".,"))
        since = day + datetime.timedelta(days=one["number"] * 37 % 2000)
        lines.append(f"{one['number']:06d};{euros};{since:%d.%m.%Y}")
    paths["bank"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    clinic.select(
        pl.col("number").alias("patient"),
        pl.when(pl.col("number") % 17 == 0).then(None).otherwise(pl.col("age")).alias("age"),
        pl.when(pl.col("ill")).then(pl.lit("Yes")).otherwise(pl.lit("no")).alias("ill"),
    ).write_parquet(paths["clinic"])
    lines = ["client,orders,tariff"]
    for place, one in enumerate(shop.iter_rows(named=True)):
        orders = -999 if one["number"] % 19 == 0 else one["orders"]
        tariff = ("{}", "{}.0", "+{}", " {} ")[place % 4].format(TARIFFS[one["tariff"]])
        lines.append(f"C-{one['number']},{orders},{tariff}")
    paths["shop"].write_bytes(gzip.compress(("\r\n".join(lines) + "\r\n").encode(), mtime=0))
    lines = ["Person\tRegion"]
    for place, one in enumerate(registry.iter_rows(named=True)):
        region = "" if one["number"] % 23 == 0 else REGIONS[one["region"]]
        lines.append(f"Nr. {one['number']} \t{' ' * (place % 3)}{region}")
    paths["registry"].write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    return paths


def as_pooled() -> dict[str, NDArray[np.float64]]:
    """Return the encoded columns as somebody sees them who holds all tables, by `owner.column`, without the encoder."""
    table = people()
    number, age, income, orders, ill, region, tariff = (table[name].to_numpy() for name in table.columns)
    columns = {
        "bank.Einkommen": np.where(number % 13 == 0, 40_000.0, income),
        "bank.Kunde seit": number * 37 % 2000,
        "clinic.age": np.where(number % 17 == 0, 50, age),
        "clinic.ill": ill,
        "shop.orders": np.where(number % 19 == 0, 5, orders),
        "registry.Region=missing": number % 23 == 0,
    }
    columns |= {f"shop.tariff={name}": tariff == place for place, name in enumerate(TARIFFS)}
    is_known = number % 23 != 0
    columns |= {f"registry.Region={name}": is_known & (region == place) for place, name in enumerate(REGIONS)}
    return {name: values.astype(np.float64) for name, values in columns.items()}


def _with_others(owner: int) -> pl.DataFrame:
    """Return the people, some others, in an order of the owner's own."""
    others = people().head(N_OTHERS).with_columns(number=100_000 * (owner + 1) + pl.col("number"))
    return pl.concat([people(), others]).sample(fraction=1.0, shuffle=True, seed=owner)
