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
from analyses.matrix_factorization.serving.ranking import ndcg_at, recall_at
from demo.data_sets.ratings import BOUNDS, N_LECTURERS, N_STUDENTS, RatingParties

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

SHOWN = 10
"""Items that are shown to a user where rankings are measured."""

LIKED = 5
"""A rating from which on a user likes an item: the best one, which a quarter of the ratings are."""


def scores_of_factors(
    data: RatingParties,
    plan: Any,
    result: Mapping[str, Any],
    reference: FactorModel,
    kept: Mapping[str, Mapping[str, Any]],
) -> list[tuple[str, float | None, float | None]]:
    """Return the mean squared errors of what is released and of what each party keeps, and how the latter ranks items.

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
    predicted, of_parties, rankings = [], [], []
    for party, one in kept.items():
        own = data.of_party(data.held_out, party)
        items = own[:, 1] // len(data.tables) if data.is_vertical else own[:, 1]
        mine = _ratings(data.of_party(data.pooled, party), result["centre"])
        predicted.append(predicted_by(one, mine, own[:, 0], items))
        of_parties.append(own)
        rated = mine.columns // len(data.tables) if data.is_vertical else mine.columns
        rankings.append(_ranking(one, mine, rated, own[:, 0], items, own[:, 2]))
    recall, ndcg = _ranking_of_reference(data, reference, ratings, largest)
    own_recall, own_ndcg = np.average(rankings, axis=0, weights=[len(own) for own in of_parties])
    own_error = error(np.concatenate(predicted), np.concatenate(of_parties))
    what = f"mean squared error on {len(rows):,} ratings that are in no table"
    return [
        (f"{what}, by what is released", of_model(released), of_model(reference)),
        ("the same, by what each party keeps for itself", own_error, None),
        (f"NDCG@{SHOWN} of these ratings, in the order that each party gives them for a user", float(own_ndcg), ndcg),
        (f"recall@{SHOWN} of those of {LIKED}, among all items that the user has not rated", float(own_recall), recall),
    ]


def _ranking_of_reference(
    data: RatingParties, reference: FactorModel, ratings: Ratings, largest: int | None
) -> tuple[float | None, float | None]:
    """Return recall and NDCG by the model of exact sums; none in the vertical setting, whose model is of users."""
    if data.is_vertical:
        return None, None
    of_items = {"of": "items", "offsets": reference.offsets_q, "vectors": reference.vectors_q, "units": reference.units}
    kept = of_items if largest is None else {"of": "items", "vectors": reference.vectors, "largest": largest}
    return _ranking(kept, ratings, ratings.columns, *data.held_out.T)


def _ranking(
    kept: Mapping[str, Any], ratings: Ratings, rated: Numbers, users: Numbers, items: Numbers, values: Numbers
) -> tuple[float, float]:
    """Return recall and NDCG of ratings that a party has not seen; a rating's gain is what it is above the least.

    Args:
        kept: what the party keeps.
        ratings: its own.
        rated: which of its items each of them is about.
        users: user of each rating that the party has not seen.
        items: its item, as the party numbers them.
        values: the ratings themselves.
    """
    asked, of = np.unique(users, return_inverse=True)
    n_items = ratings.n_columns if kept["of"] == "items" else len(kept["items"])
    shape = (len(asked), n_items)
    pairs = np.repeat(asked, n_items), np.tile(np.arange(n_items), len(asked))
    scores = predicted_by(kept, ratings, *pairs).reshape(shape)
    unrated = np.ones(shape, dtype=bool)
    for row, user in enumerate(asked):
        unrated[row, rated[ratings.starts[user] : ratings.starts[user + 1]]] = False
    gains = np.zeros(shape)
    gains[of, items] = values - BOUNDS[0]
    left_out = np.zeros(shape, dtype=bool)
    left_out[of, items] = True
    liked = gains >= LIKED - BOUNDS[0]
    return recall_at(SHOWN, scores, unrated, liked), ndcg_at(SHOWN, scores, left_out, gains)


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
