"""Releases of second moments for tests: tables of three owners with known relations, and draws of a release's noise."""

from dataclasses import replace

import numpy as np
from moment_jobs import plan_for, table_of

from analyses.kept_moments import protocol as kept_moments
from analyses.second_moments.released import ReleasedMoments

LABELS = ("low", "middle", "high")


def tables_of(n_rows, seed=0):
    """Income and a yes or no at the bank, age and a category of three at the clinic, visits at the shop."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n_rows)
    age = np.clip(50 + 10 * (0.6 * common + 0.8 * rng.normal(size=n_rows)), 0, 100)
    visits = np.clip(0.5 * common + np.sqrt(0.75) * rng.normal(size=n_rows), -4, 4)
    group = rng.choice(3, n_rows, p=[0.5, 0.3, 0.2])
    owns = (rng.random(n_rows) < 0.3).astype(float)
    income = np.clip(20 + 0.3 * age - 2 * visits + 4 * group + rng.normal(0, 3, n_rows), 0, 80)
    kinds = {f"risk={label}": (0, 1, (group == i).astype(float)) for i, label in enumerate(LABELS)}
    clinic = table_of("clinic", {"age": (0, 100, age), **kinds})
    columns = [c.model_copy(update={"group": "risk"}) if "=" in c.name else c for c in clinic.schema.columns]
    clinic = replace(clinic, schema=clinic.schema.model_copy(update={"columns": tuple(columns)}))
    bank = table_of("bank", {"income": (0, 80, income), "owns": (0, 1, owns)})
    return {"bank": bank, "clinic": clinic, "shop": table_of("shop", {"visits": (-4, 4, visits)})}


def plan_of(tables, epsilon=4.0):
    n_rows = tables["bank"].n_rows
    return plan_for(kept_moments, tables, {"max_rows": n_rows}, privacy={"epsilon": epsilon, "delta": 1e-6})


def released(tables, plan, rng=None):
    """The release of these tables; without a generator it has no noise, though it says that it has."""
    exact = kept_moments.reference(list(tables.values()), plan)
    if rng is None:
        return ReleasedMoments.of(exact, plan)
    draw = rng.normal(size=exact.shape)
    return ReleasedMoments.of(exact + ReleasedMoments.of(exact, plan).deviation * (draw + draw.T) / np.sqrt(2), plan)


def joint_of(tables):
    """All columns by their names in the joint table."""
    return {
        f"{party}.{column.name}": table.values[:, at]
        for party, table in tables.items()
        for at, column in enumerate(table.schema.columns)
    }
