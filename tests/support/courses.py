"""Counts of rows by interval, end and group for tests of survival: invented rows with known hazards."""

import numpy as np

N_INTERVALS = 8
GROUPS = ("old", "new")


def rows_of(n_rows=4000, seed=0, hazards=(0.25, 0.15)):
    """Group, interval and event of each row: constant hazards, some leave."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n_rows)
    event_at = rng.geometric(np.array(hazards)[group]) - 1
    left_at = rng.integers(0, N_INTERVALS + 4, n_rows)
    time = np.minimum(np.minimum(event_at, left_at), N_INTERVALS - 1)
    return group, time, (event_at <= left_at) & (event_at < N_INTERVALS)


def fields_of(rows, deviation=0.0, rng=None, other_axis=False):
    group, time, event = rows
    counts = np.zeros((2 * N_INTERVALS, 2))
    np.add.at(counts, (2 * time + event, group), 1)
    if rng is not None:
        counts = counts + rng.normal(0, deviation, counts.shape)
    columns, labels = ["clinic.course", "shop.plan"], {"shop.plan": list(GROUPS)}
    categories = {"clinic.course": [0, 2 * N_INTERVALS - 1], "shop.plan": [0, 1]}
    if other_axis:
        counts = np.stack([counts / 4, 3 * counts / 4])
        columns, categories = ["bank.city", *columns], {"bank.city": [0, 1], **categories}
    errors = np.full(counts.shape, deviation)
    return {
        "method": "mpc",
        "columns": columns,
        "categories": categories,
        "labels": labels,
        "counts": counts.tolist(),
        "standard_errors": errors.tolist(),
    }
