"""A public earlier result from which a matrix factorization starts, so that only new ratings are charged.

The result of an earlier job or question was released with noise and is paid for: whatever is done with it costs nothing
more. A job that starts from it needs a table of the new ratings only, and pays for these as any job pays for its table;
ledgers add both jobs, as ever, so a person with ratings in both tables has paid for both. The bounds of what a unit
moves hold for whatever model is broadcast (`unit_vectors`), so nobody's ratings are less protected where the model is
another one than it says; only the answer is worse.

It is bound by `digest`, which the result states, and as a parameter by the digest of the plan. What a party keeps after
a job is fitted to exact ratings. It has no such digest and is refused.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from analyses.job.job import Finite, JobError, PublicModel, explain
from analyses.matrix_factorization.model import MAX_VALUE, FactorModel

NAME = "matrix-factorization"


class EarlierModel(PublicModel):
    """The model of an earlier result. Public.

    Attributes:
        of: whose offsets and vectors: items, or the users of a job in the vertical setting.
        items_digest: digest of the public list of items; None for users.
        parties: the job's parties, whose users have the same numbers; empty for items.
        offsets: shape (rows,), in lattice points.
        vectors: shape (rows, p), in lattice points.
        units: lattice points per 1.
        centre: mu0.
        bounds: bounds of a rating.
        digest: `digest_of_model` of the others.
    """

    of: Literal["items", "users"]
    items_digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None
    parties: tuple[str, ...] = ()
    offsets: Annotated[tuple[int, ...], Field(min_length=1)]
    vectors: tuple[tuple[int, ...], ...]
    units: Annotated[int, Field(ge=1, le=1 << 20)]
    centre: Finite
    bounds: tuple[Finite, Finite]
    digest: str

    @model_validator(mode="after")
    def _is_a_whole_model(self) -> Self:
        if len(self.vectors) != len(self.offsets) or len(set(map(len, self.vectors))) > 1:
            raise ValueError("vectors: there must be one for each offset, all of the same length")
        most = MAX_VALUE * self.units
        if any(abs(value) > most for values in (self.offsets, *self.vectors) for value in values):
            raise ValueError(f"offsets, vectors: a value is further from 0 than {MAX_VALUE}")
        if self.digest != digest_of_model(self.model_dump(mode="json")):
            raise ValueError("digest: is not that of these offsets and vectors; they were changed")
        return self

    @property
    def model(self) -> FactorModel:
        """The model on its lattice."""
        n_rows = len(self.offsets)
        vectors = np.array(self.vectors, dtype=np.int64).reshape(n_rows, -1)
        return FactorModel(np.array(self.offsets, dtype=np.int64), vectors, self.units)

    def check(
        self,
        *,
        of: str,
        items_digest: str | None,
        parties: Sequence[str],
        shape: tuple[int, int],
        units: int,
        centre: float,
        bounds: tuple[float, float],
        longest: float | None = None,
    ) -> None:
        """Refuse a model that what is asked cannot start from, before any rating is read.

        Args:
            of: "items" or "users": rows of the new model.
            items_digest: digest of its items; None for users.
            parties: the job's parties.
            shape: rows and rank of the new model.
            units: lattice points per 1.
            centre: mu0.
            bounds: bounds of a rating.
            longest: largest squared length of a vector; None for no bound.

        Raises:
            JobError: says how they differ.
        """
        mine = len(self.offsets), len(self.vectors[0])
        faults = {
            f"is of {self.of}, and this is asked about {of}": self.of != of,
            "is of another list of items than the owners declare": self.items_digest != items_digest,
            "is of other parties, whose users are not these": of == "users" and set(self.parties) != set(parties),
            f"has {mine[0]} {self.of} and rank {mine[1]}, and here are {shape[0]} and rank {shape[1]}": mine != shape,
            f"has {self.units} units per 1, and here are {units}": self.units != units,
            "has another centre or other bounds of a rating": (self.centre, self.bounds) != (centre, bounds),
        }
        for fault, is_so in faults.items():
            if is_so:
                raise JobError(f"start: the earlier model {fault}")
        vectors = self.model.vectors
        if longest is not None and (np.einsum("ij,ij->i", vectors, vectors) > longest).any():
            raise JobError("start: the earlier model has a vector that is longer than its public bound")


def digest_of_model(fields: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a model as its result states it, in hexadecimal digits.

    Args:
        fields: what a result states; only what an `EarlierModel` has counts, without its digest.
    """
    names = EarlierModel.model_fields.keys() - {"digest"}
    stated = {name: fields[name] for name in names} | {
        "centre": float(fields["centre"]),
        "bounds": [float(bound) for bound in fields["bounds"]],
    }
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def with_digest(fields: Mapping[str, Any], parties: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a result with the digest of its model, from which a later job may start."""
    return {**fields, "model_digest": digest_of_model({**fields, "parties": sorted(parties)})}


def start_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter `start` of a later job or question, from the result of an earlier one.

    Raises:
        ValueError: it is no public result of this analysis in the form statistics, or was changed; says what.
    """
    if result.get("analysis") != NAME or result.get("form") != "statistics" or "model_digest" not in result:
        raise ValueError("start: this is no public result of a matrix factorization of the form statistics")
    parties: set[str] = set()
    if result["of"] == "users":
        parties.update(*(set(one["survivors"]) | set(one["vanished"]) for one in result["rounds"]))
    names = EarlierModel.model_fields.keys() - {"digest", "parties"}
    fields = {name: result.get(name) for name in names} | {"parties": sorted(parties)}
    try:
        EarlierModel.model_validate(fields | {"digest": result["model_digest"]})
    except ValidationError as error:
        raise ValueError(f"start: {explain(error, EarlierModel)}") from None
    return fields | {"digest": result["model_digest"]}
