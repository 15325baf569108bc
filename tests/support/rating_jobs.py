"""Jobs and tables of ratings for matrix factorization: three parties with made-up ratings."""

import numpy as np
from rating_tables import made_up

from analyses.job.job import Job
from analyses.job.ratings import RatingRows, RatingsSchema, digest_of_features, digest_of_items
from analyses.job.schema import BlockSchema, Table

PARTIES = ("bank", "hospital", "telco")
N_ITEMS, N_USERS, PER_USER = 12, 90, 6
BOUNDS = (-3.0, 3.0)


def rows_of(users, items, values, names=None):
    """Return rows in the order given; `users` are whole numbers, whose texts are their names."""
    found, places = np.unique(np.array([str(user) for user in users]), return_inverse=True)
    return RatingRows(
        places.astype(np.int64),
        np.asarray(items, dtype=np.int64),
        np.asarray(values, dtype=np.float64),
        tuple(map(str, found)),
    )


def table_of(party, rows, *, n_items=N_ITEMS, users=50, per_user=PER_USER, bounds=BOUNDS, items=None):
    ratings = RatingsSchema(
        items=n_items,
        items_digest=digest_of_items(n_items if items is None else items),
        users=users,
        ratings_per_user=per_user,
        lower=bounds[0],
        upper=bounds[1],
    )
    schema = BlockSchema(party=party, ratings=ratings)
    return Table(schema, np.empty((len(rows.values), 0)), ratings=rows)


def horizontal_tables(parties=PARTIES, n_users=N_USERS, seed=1):
    """Each party holds all ratings of every third user."""
    ratings, _ = made_up(n_users, N_ITEMS, PER_USER, seed=seed)
    users, n = ratings.rows, len(parties)
    found = {}
    for k, party in enumerate(parties):
        mine = users % n == k
        found[party] = table_of(party, rows_of(users[mine], ratings.columns[mine], ratings.deviations[mine]))
    return found


def vertical_tables(parties=PARTIES, n_users=N_USERS, seed=1):
    """Each party holds all ratings of its four items."""
    ratings, _ = made_up(n_users, N_ITEMS, PER_USER, seed=seed)
    items, n = ratings.columns, len(parties)
    found = {}
    for k, party in enumerate(parties):
        mine = items % n == k
        rows = rows_of(ratings.rows[mine], items[mine] // n, ratings.deviations[mine])
        found[party] = table_of(party, rows, n_items=N_ITEMS // n, users=n_users)
    return found


def declaring(tables, features_of):
    """The same tables, whose owners declare the features that `features_of` gives for each; None for none."""
    found = {}
    for party, table in tables.items():
        features = features_of(party)
        digest = digest_of_features(features)
        ratings = table.schema.ratings.model_copy(update={"features_digest": digest})
        schema = table.schema.model_copy(update={"ratings": ratings})
        found[party] = type(table)(schema, table.values, ratings=table.ratings)
    return found


def job_of(parties=PARTIES, **changes):
    fields = {
        "analysis": "matrix-factorization",
        "inputs": [{"party": p, "table": "ratings"} for p in parties],
        "privacy": {"epsilon": 40.0, "delta": 1e-4},
        "parameters": {"setting": "horizontal", "rank": 2, "rounds": 2},
    }
    return Job.model_validate({**fields, **changes})


VERTICAL = {"setting": "vertical", "rank": 1, "rounds": 2}

SGD = {"form": "sgd", "rank": 2, "steps": 3, "sampling_rate": 0.5}
SGD_PARTY = {**SGD, "noise": "party", "local_steps": 2}
SGD_VERTICAL = {**SGD, "setting": "vertical", "rank": 1, "final_steps": 2}
SGD_VERTICAL_PARTY = {**SGD_VERTICAL, "noise": "party", "local_steps": 2}
SGD_WAYS = {
    "horizontal, once": SGD,
    "horizontal, party": SGD_PARTY,
    "vertical, once": SGD_VERTICAL,
    "vertical, party": SGD_VERTICAL_PARTY,
}
"""The form sgd in every setting, with noise of every kind."""
