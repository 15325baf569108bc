"""Plans of every analysis in the registry, over random legal jobs: three to five parties, any method, view and target.

Whatever `analyses.registry.ANALYSES` has and `DRAWN` lacks is missing in the tests that draw from here; one of them
says so (`tests/accounting/test_charge_dominates.py`).
"""

from collections.abc import Callable
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from analyses.clustering.plan import ESTIMATORS
from analyses.distribution.methods import METHODS
from analyses.job.job import Job, JobError
from analyses.job.matching import MatchingSchema
from analyses.job.plan import Plan
from analyses.job.ratings import RatingsSchema, digest_of_items
from analyses.job.schema import BlockSchema, ColumnSchema
from analyses.registry import analysis_of

ROWS = (40, 200_000)
Draw = Callable[[st.SearchStrategy], Any]

ROW_NORMS = {
    "middle": st.one_of(st.floats(0.5001, 0.6), st.floats(0.3, 3.0)),
    "lower": st.one_of(st.floats(1.0001, 1.1), st.floats(0.3, 3.0)),
}
"""By origin; also ones of which the constant column, 0.5 or 1, takes nearly all."""


def column(name: str, lower: float, upper: float) -> ColumnSchema:
    return ColumnSchema(name=name, lower=lower, upper=upper)


def _reals(draw: Draw, parties, n=(1, 3)) -> dict[str, tuple[ColumnSchema, ...]]:
    lower = draw(st.sampled_from([-1.0, 0.0, 2.0]))
    return {p: tuple(column(f"x{i}", lower, lower + 2.0) for i in range(draw(st.integers(*n)))) for p in parties}


def _whole(draw: Draw, parties, most=20) -> dict[str, tuple[ColumnSchema, ...]]:
    return {p: (column("x0", 0.0, float(draw(st.integers(1, most)))),) for p in parties}


def _moments_of_rows(draw: Draw) -> dict[str, Any]:
    """Parameters of the rows, and of the sketch: row norms that clip hardly anything and ones that clip nearly all."""
    parameters: dict[str, Any] = {
        "gamma": draw(st.sampled_from([64, 1024, 4096])),
        "origin": draw(st.sampled_from(["lower", "middle"])),
        "method": draw(st.sampled_from(["mpc", "sketch"])),
    }
    if draw(st.booleans()):
        parameters["row_norm"] = draw(ROW_NORMS[parameters["origin"]])
    if parameters["method"] == "sketch" and draw(st.booleans()):
        parameters |= {"sketch_rows": draw(st.integers(20, 60)), "sketch_entries": draw(st.sampled_from(["signs"]))}
    return parameters


def _least_squares(draw: Draw, parties):
    columns = _reals(draw, parties)
    return columns, _moments_of_rows(draw) | {"label": f"{parties[0]}.x0"}


def _low_rank(draw: Draw, parties):
    return _reals(draw, parties), _moments_of_rows(draw) | {"rank": draw(st.integers(1, 2))}


def _second_moments(draw: Draw, parties):
    parameters = {"gamma": draw(st.sampled_from([16, 1024])), "origin": draw(st.sampled_from(["lower", "middle"]))}
    if draw(st.booleans()):
        parameters["row_norm"] = draw(ROW_NORMS[parameters["origin"]])
    return _reals(draw, parties), parameters


def _pca(draw: Draw, parties):
    parameters = {"components": 1, "gamma": draw(st.sampled_from([16, 1024]))}
    if draw(st.booleans()):
        parameters["row_norm"] = draw(st.floats(0.3, 3.0))
    return _reals(draw, parties), parameters


def _logistic_regression(draw: Draw, parties):
    columns = _reals(draw, parties)
    columns[parties[0]] = (column("y", 0.0, 1.0), *columns[parties[0]])
    parameters: dict[str, Any] = {
        "label": f"{parties[0]}.y",
        "origin": draw(st.sampled_from(["lower", "middle", None])),
    }
    if draw(st.booleans()):
        return columns, parameters | {"gamma": draw(st.sampled_from([256, None]))}
    order = draw(st.sampled_from([1, 3]))
    return columns, parameters | {
        "method": "gradient",
        "iterations": draw(st.integers(1, 30)),
        "sampling_rate": draw(st.floats(0.01, 1.0)),
        "order": order,
        "release": draw(st.sampled_from(["gradient", "three-sums"])) if order == 1 else "gradient",
        "weight_norm": draw(st.floats(0.5, 3.0)),
        "intercept": draw(st.booleans()),
    }


def _clustering(draw: Draw, parties):
    counting = draw(st.sampled_from(sorted(ESTIMATORS)))
    options: dict[str, Any] = {"fm-sketch": {"accept_no_protection_against_parties": True, "sketches": 64}}.get(
        counting, {}
    )
    parameters = {"k": 2, "k_local": draw(st.integers(2, 3)), "counting": counting, "counting_options": options}
    method = draw(st.sampled_from(["tree", "lloyd"]))
    share = draw(st.floats(0.2, 0.8))
    return _reals(draw, parties, (1, 2)), parameters | {"local_method": method, "counting_share": share}


def _moments(draw: Draw, parties):
    method = draw(st.sampled_from(["mpc", "laplace", "sketch", "threshold"]))
    order = {"laplace": 1, "sketch": 2}.get(method) or draw(st.integers(1, 3))
    extra = {"threshold": {"threshold": draw(st.integers(2, 20))}, "sketch": {"sketch_rows": 16}}.get(method, {})
    return _whole(draw, parties), {"method": method, "order": order} | extra


def _pattern_count(draw: Draw, parties):
    method = draw(st.sampled_from(["mpc", "randomized-response", "subsampled"]))
    return _whole(draw, parties, 3), {"method": method} | ({"share": 0.5} if method == "subsampled" else {})


def _joint_sums(draw: Draw, parties):
    return _reals(draw, parties), {}


def _joint_count(draw: Draw, parties):
    return _reals(draw, parties), {"bins": draw(st.sampled_from([None, "auto", 1 << 20]))}


def _cross_table(draw: Draw, parties):
    return _whole(draw, parties, 3), {}


def _table_sum(draw: Draw, parties):
    n = draw(st.integers(2, 3))
    unit = draw(st.sampled_from(["record", "row", "party"]))
    parameters = {"units": draw(st.sampled_from([4, 256])), "unit": unit}
    if unit == "party":
        parameters["party_norm"] = draw(st.floats(1.0, 50.0))
    if draw(st.booleans()):
        parameters["row_norm"] = draw(st.floats(0.3, 2.0))
    return _reals(draw, parties, (n, n)), parameters


def _distribution(draw: Draw, parties):
    method = draw(st.sampled_from([name for name in METHODS if name not in ("direct", "hashed")]))
    if method == "grid":
        cells = draw(st.sampled_from([None, (1, 2), (6, 11)]))
        return _reals(draw, parties, (2, 2)), {"method": method, "cells": cells, "max_rows": None}
    parameters = {"method": method, "buckets": draw(st.sampled_from([16, 64, 192])), "bins": 16, "max_rows": None}
    return _reals(draw, parties, (1, 1)), parameters


def _matrix_factorization(draw: Draw, parties):
    """Ratings: what all declare alike, and a party's own number of users, or of items in the vertical setting."""
    setting = draw(st.sampled_from(["horizontal", "vertical"]))
    rank = draw(st.sampled_from([0, 1, 4, "auto"]))
    parameters: dict[str, Any] = {"setting": setting, "rank": rank, "attempts": draw(st.integers(1, 3))}
    if rank != 0 and draw(st.booleans()):
        parameters |= _descent(draw, setting)
    elif rank not in (0, "auto"):
        parameters["rounds"] = draw(st.integers(1, 5))
    users, items = draw(st.integers(1, 300)), draw(st.integers(1, 40))
    declared = {}
    for party in parties:
        own_items = draw(st.integers(1, 40)) if setting == "vertical" else items
        declared[party] = RatingsSchema(
            items=own_items,
            items_digest=digest_of_items(own_items),
            users=users if setting == "vertical" else draw(st.integers(1, 300)),
            ratings_per_user=draw(st.integers(1, 60)),
            lower=1.0,
            upper=5.0,
        )
    return declared, parameters | {"max_rows": None}


def _descent(draw: Draw, setting: str) -> dict[str, Any]:
    """Parameters of the form sgd."""
    noise = draw(st.sampled_from(["once", "party"]))
    parameters: dict[str, Any] = {
        "form": "sgd",
        "noise": noise,
        "steps": draw(st.integers(1, 8)),
        "local_steps": draw(st.integers(1, 4)) if noise == "party" else 1,
        "sampling_rate": draw(st.floats(0.01, 1.0)),
        "theta": draw(st.integers(1, 20)),
    }
    if setting == "vertical":
        parameters["final_steps"] = draw(st.integers(0, 3))
        if noise == "party":
            parameters["unit"] = draw(st.sampled_from(["user", "rating"]))
    return parameters


def _histogram(draw: Draw, parties):
    unit = draw(st.sampled_from(["record", "row", "party"]))
    parameters = {"edges": [0.0, 0.5, 1.0, 2.0], "unit": unit}
    return _reals(draw, parties, (1, 1)), parameters | ({"party_norm": 5.0} if unit == "party" else {})


Brought = tuple[ColumnSchema, ...] | RatingsSchema


def _circuit(draw: Draw, parties):
    """A column of each party, steps that draw earlier ones, and sums of the last few."""
    columns = _whole(draw, parties)
    lines = [f"x{i} = column({party}.x0)" for i, party in enumerate(parties)]
    for _ in range(draw(st.integers(1, 6))):
        one, other = (f"x{draw(st.integers(0, len(lines) - 1))}" for _ in range(2))
        operation = draw(st.sampled_from(["add", "sub", "mul", "less", "equal", "minimum", "maximum"]))
        operation = "less" if operation == "sub" and one == other else operation
        lines.append(f"x{len(lines)} = {operation}({one}, {other})")
    lines += [f"open sum{i} = sum(x{i})" for i in range(len(parties), len(lines))]
    return columns, {"program": lines}


DRAWN: dict[str, Callable[[Draw, tuple[str, ...]], tuple[dict[str, Brought], dict[str, Any]]]] = {
    "circuit": _circuit,
    "clustering": _clustering,
    "cross-table": _cross_table,
    "distribution": _distribution,
    "joint-count": _joint_count,
    "joint-mean": _joint_sums,
    "joint-sum": _joint_sums,
    "least-squares": _least_squares,
    "second-moments": _second_moments,
    "logistic-regression": _logistic_regression,
    "low-rank": _low_rank,
    "matrix-factorization": _matrix_factorization,
    "moments": _moments,
    "pattern-count": _pattern_count,
    "pca": _pca,
    "secure-histogram": _histogram,
    "secure-mean": _table_sum,
    "secure-sum": _table_sum,
}


def _may_protect_persons(analysis: str, parameters: dict[str, Any]) -> bool:
    if analysis in ("clustering", "distribution", "matrix-factorization") or parameters.get("bins"):
        return False
    return parameters.get("method") not in ("threshold", "subsampled")


def _schema(party: str, brought: Brought, most: int) -> BlockSchema:
    if isinstance(brought, RatingsSchema):
        return BlockSchema(party=party, rows=ROWS, ratings=brought)
    return BlockSchema(party=party, columns=brought, has_ids=True, rows=ROWS, most_rows_per_person=most)


def _told_apart(schema: BlockSchema) -> BlockSchema:
    """Return a schema of a table whose rows have ids of other tables' people."""
    return schema.model_copy(update={"has_ids": False, "matching": MatchingSchema(recipe=(("trim",),))})


@st.composite
def plans(draw, analysis: str) -> Plan:
    """The plan of a random job; jobs that cannot be planned are drawn anew."""
    parties = tuple(f"p{i}" for i in range(draw(st.integers(3, 5))))
    columns, parameters = DRAWN[analysis](draw, parties)
    if _may_protect_persons(analysis, parameters) and draw(st.booleans()):
        parameters["unit"] = "person"
        parameters.pop("party_norm", None)
    view = draw(st.sampled_from(["coalition", "coordinator"]))
    if parameters.get("counting") == "fm-sketch":
        view = "coordinator"
    job = Job.model_validate(
        {
            "analysis": analysis,
            "anyway": True,  # what is charged does not depend on whether an answer can be seen
            "inputs": [{"party": p, "table": "people"} for p in parties],
            "colluding": draw(st.integers(1, (len(parties) - 1) // 2)),
            "privacy": {
                "epsilon": draw(st.floats(0.3, 20.0)),
                "delta": draw(st.sampled_from([1e-4, 1e-6, 1e-9])),
                "view": view,
            },
            "parameters": {k: v for k, v in ({"max_rows": ROWS[1]} | parameters).items() if v is not None},
        }
    )
    most = draw(st.integers(1, 5))
    schemas = [_schema(p, columns[p], most) for p in parties]
    schemas = [*map(_told_apart, schemas)] if parameters.get("bins") else schemas
    try:
        return analysis_of(job).plan(job, schemas)
    except JobError:
        assume(False)
        raise
