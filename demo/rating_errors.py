"""Errors of a matrix factorization on ratings that are in no table, which only a demo has."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.descent.projected_descent import fit_users
from analyses.matrix_factorization.horizontal import item_rows, solve_users
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.ratings import Ratings
from demo.data_sets.ratings import BOUNDS, N_LECTURERS, N_STUDENTS, RatingParties

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


def scores_of_factors(
    data: RatingParties,
    plan: Any,
    result: Mapping[str, Any],
    reference: FactorModel,
    kept: Mapping[str, Mapping[str, Any]],
) -> list[tuple[str, float | None, float | None]]:
    """Return the mean squared errors of what is released and of what each party keeps.

    Args:
        data: what the parties hold, and what nobody holds.
        plan: plan of the job.
        result: result of the job.
        reference: the model that exact sums lead to.
        kept: party to what it keeps.
    """
    largest = plan.descent.params.largest if result["form"] == "sgd" else None
    ratings, rows = _ratings(data.pooled, result["centre"]), data.held_out

    def error(predicted: Floats, rows: Numbers) -> float:
        return float(np.mean((np.clip(predicted + result["centre"], *BOUNDS) - rows[:, 2]) ** 2))

    def of_model(model: FactorModel) -> float:
        """Return the error where all others, users or items, are solved by it with exact ratings."""
        solving, this, other = (ratings.transposed(), 0, 1) if data.is_vertical else (ratings, 1, 0)
        if largest is None:
            solved, vectors = solve_users(model, solving, protocol.PRIOR), item_rows(model)
        else:
            solved, vectors = fit_users(solving, model.vectors, largest), model.vectors
        products = np.einsum("ij,ij->i", solved[rows[:, other]], vectors[rows[:, this]])
        return error(model.offsets[rows[:, this]] + products, rows)

    released = FactorModel(
        np.array(result["offsets"], dtype=np.int64),
        np.array(result["vectors"], dtype=np.int64).reshape(len(result["offsets"]), -1),
        result["units"],
    )
    predicted, of_parties = [], []
    for party, one in kept.items():
        own = data.of_party(data.held_out, party)
        items = own[:, 1] // len(data.tables) if data.is_vertical else own[:, 1]
        mine = _ratings(data.of_party(data.pooled, party), result["centre"])
        predicted.append(predicted_by(one, mine, own[:, 0], items))
        of_parties.append(own)
    own_error = error(np.concatenate(predicted), np.concatenate(of_parties))
    what = f"mean squared error on {len(rows):,} ratings that are in no table"
    return [
        (f"{what}, by what is released", of_model(released), of_model(reference)),
        ("the same, by what each party keeps for itself", own_error, None),
    ]


def predicted_by(kept: Mapping[str, Any], ratings: Ratings, users: Numbers, items: Numbers) -> Floats:
    """Return what a party predicts of pairs of a user and an item, less the centre.

    Args:
        kept: what the party keeps of the job.
        ratings: its own, less the centre.
        users: rows of `ratings`.
        items: numbers at the party.
    """
    if kept["of"] != "items":
        u, v = np.array(kept["users"])[users], np.array(kept["items"])[items]
        return np.asarray(u[:, 0] + v[:, 0] + np.einsum("ij,ij->i", u[:, 1:], v[:, 1:]))
    vectors = np.array(kept["vectors"], dtype=np.float64).reshape(ratings.n_columns, -1)
    if "largest" in kept:
        return np.asarray(np.einsum("ij,ij->i", fit_users(ratings, vectors, kept["largest"])[users], vectors[items]))
    model = FactorModel(np.array(kept["offsets"]), vectors.astype(np.int64), kept["units"])
    solved = solve_users(model, ratings, protocol.PRIOR)[users]
    return np.asarray(model.offsets[items] + np.einsum("ij,ij->i", solved, item_rows(model)[items]))


def _ratings(rows: Numbers, centre: float) -> Ratings:
    """Return ratings, in which students and lecturers have their numbers in all tables together."""
    return Ratings.of(rows[:, 0], rows[:, 1], rows[:, 2].astype(np.float64) - centre, N_STUDENTS, N_LECTURERS)
