"""What a party recommends to one of its users after a matrix factorization: from its own table and its own report.

Nothing is sent: the model stands in the party-local report of the job, and the ratings in the party's table. What is
recommended depends on the user's exact ratings, and no noise hides them: it is for the user, and for nobody else.
"""

import json
from dataclasses import dataclass, field

import numpy as np

from analyses.job.job import JobInput
from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.own_ratings import own_ratings
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.serving.kept import USERS, recommended
from analyses.matrix_factorization.serving.new_items import NewItems
from analyses.matrix_factorization.serving.recommend import RecommendedItem
from party.config import PartyConfig
from party.tables.ratings_config import RatingsTableConfig
from party.tables.table import load_table
from service.files.private_report import report_path


class NoModelError(Exception):
    """There is no model of the job at this party; the text says why."""

    code: str = "party-has-no-model"


@dataclass(frozen=True)
class Recommended:
    """What is recommended to a user. Private to the user.

    Attributes:
        items: the best ones first.
        knows_user: whether the table has ratings of the user; if not, the items are in the order of their offsets.
    """

    items: tuple[RecommendedItem, ...] = field(repr=False)
    knows_user: bool


def recommend_for(config: PartyConfig, job_id: str, user: str, *, top: int, new: NewItems | None = None) -> Recommended:
    """Return the best items for a user, among those that it has not rated.

    The table is read as it is now, so a user is solved from its newest ratings.

    Args:
        config: configuration of the party.
        job_id: id of a matrix factorization that ended here.
        user: user as the party's table names it.
        top: maximum number of items, 1 or more.
        new: items that the job did not know, by their features; they are among those that are recommended.

    Raises:
        NoModelError: no such job ended here, it left no model, or its table is none of ratings any more, or has another
            list of items or other features of them.
        UnknownUserError: the table does not name the user, and the model has no order of items for all users.
        UnusableTableError: the table cannot be read.
        ValueError: `top` is below 1, or new items do not fit the job.
    """
    try:
        report = json.loads(report_path(config.data_dir, job_id).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        raise NoModelError(f"there is no report of job {job_id}") from None
    kept, balance = report.get("kept"), report["budget"]
    if not kept or balance is None:
        raise NoModelError(f"job {job_id} left no model here: it was not a matrix factorization")
    name = balance["dataset"]
    table = next((one for one in config.tables if one.name == name), None)
    if not isinstance(table, RatingsTableConfig):
        raise NoModelError(f"table {name!r}, which job {job_id} was about, is not a table of ratings any longer")
    if digest_of_items(table.items) != kept["items_digest"]:
        raise NoModelError(f"the list of items of table {name!r} is not the one that job {job_id} had")
    if (digest := kept.get("features_digest")) is not None and digest != table.features_digest:
        raise NoModelError(f"the features of items of table {name!r} are not those that job {job_id} had")
    rows = load_table(config, JobInput(party=config.name, table=name)).ratings
    assert rows is not None
    own = own_ratings(
        rows,
        n_items=table.n_items,
        bounds=(kept["bounds"][0], kept["bounds"][1]),
        centre=kept["centre"],
        n_users=table.users if kept["of"] == USERS else None,
    )
    names = (*table.item_names, *(new.names if new else ()))
    found = recommended(
        kept,
        own,
        user,
        top=top,
        prior=Prior(),
        features=None if digest is None else np.array(table.features, dtype=np.float64),
        new=None if new is None else new.features,
    )
    items = tuple(RecommendedItem(names[one.item], one.rating) for one in found)
    return Recommended(items, knows_user=own.place_of(user) is not None)
