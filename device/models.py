"""Models that a device keeps after matrix factorizations, or that its owner brings: public, for own recommendations."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from analyses.matrix_factorization.descent.descent_plan import MAX_LARGEST
from analyses.matrix_factorization.devices.question import NAME
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.plan import MAX_RANK
from analyses.matrix_factorization.posterior import Regression
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from service.files.private_report import keep_private
from service.job_id import is_job_id

MAX_UNITS = 1 << 20


class NoModelError(Exception):
    """There is no usable model; the text says why."""

    code: str = "device-has-no-model"


@dataclass(frozen=True)
class KeptModel:
    """The model of one question. Public.

    Attributes:
        record: the name under which members keep their ratings.
        items_digest: digest of the public list of items.
        bounds: bounds of a rating.
        centre: mu0.
        model: model of the items.
        largest: R, of squared norms of embeddings, in the form sgd; None in the form statistics.
        features_digest: digest of the public features of the items; None where the question stated none.
        regression: how they move offsets; None likewise.
    """

    record: str
    items_digest: str
    bounds: tuple[float, float]
    centre: float
    model: FactorModel = field(repr=False)
    largest: int | None = None
    features_digest: str | None = None
    regression: Regression | None = field(default=None, repr=False)

    @classmethod
    def released(cls, rounds: DeviceRounds, outcome: bytes) -> Self:
        """Return what the coordinator says that a series has come to, checked.

        Raises:
            PeerViolationError: it is of another shape, or off the lattice.
        """
        question = rounds.question
        model, regression = rounds.read_outcome(outcome, "end of the series")
        return cls(
            question.record,
            question.items_digest,
            question.bounds,
            question.middle,
            model,
            rounds.largest,
            question.features_digest,
            regression,
        )

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Return the model in an answer of `moiety sum --format json`, or in a file of `keep_model`.

        Raises:
            NoModelError: it holds no model.
        """
        try:
            lower, upper = tree["bounds"]
            units, n_items, largest = tree["units"], len(tree["offsets"]), tree.get("largest")
            model = FactorModel(
                np.array(tree["offsets"], dtype=np.int64),
                np.array(tree["vectors"], dtype=np.int64).reshape(n_items, -1),
                units,
            )
            if (
                type(units) is not int
                or not 1 <= units <= MAX_UNITS
                or model.rank > MAX_RANK
                or not lower <= tree["centre"] <= upper
                or not (largest is None or (type(largest) is int and 1 <= largest <= MAX_LARGEST))
            ):
                raise ValueError("out of range")
            model.check(n_items, model.rank, units, COORDINATOR, "a kept model")
            digest, record = str(tree["items_digest"]), str(tree["record"])
            regression = Regression.of_data(tree["regression"]) if "regression" in tree else None
            of_features = None if regression is None else str(tree["features_digest"])
            centre, bounds = float(tree["centre"]), (float(lower), float(upper))
            return cls(record, digest, bounds, centre, model, largest, of_features, regression)
        except (ValueError, AttributeError, TypeError, KeyError, OverflowError, PeerViolationError) as error:
            raise NoModelError(f"this is no model of a {NAME} over devices") from error

    def as_tree(self) -> Mapping[str, Any]:
        """Return it as JSON data."""
        return {
            "record": self.record,
            "items_digest": self.items_digest,
            "bounds": list(self.bounds),
            "centre": self.centre,
            "offsets": self.model.offsets_q.tolist(),
            "vectors": self.model.vectors_q.tolist(),
            "units": self.model.units,
            **({} if self.largest is None else {"largest": self.largest}),
            **(
                {}
                if self.regression is None
                else {"features_digest": self.features_digest, "regression": self.regression.as_data()}
            ),
        }


def keep_model(data_dir: Path, session: str, kept: KeptModel) -> Path:
    """Write `data_dir/models/<session>.json`; it is there completely or not at all.

    Raises:
        ValueError: the session does not fit a file name; the coordinator is at fault.
        OSError: it cannot be written.
    """
    if not is_job_id(session):
        raise ValueError("the session must consist of letters, digits, '_' and '-'")
    return keep_private(data_dir / "models" / f"{session}.json", kept.as_tree())


def read_model(path: Path) -> KeptModel:
    """Return the model in a file.

    Raises:
        NoModelError: the file cannot be read, or holds none.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise NoModelError(f"{path}: cannot be read") from None
    return KeptModel.from_tree(tree)


def newest_model(data_dir: Path, record: str) -> KeptModel:
    """Return the model of the newest question about a record that this device took part in to the end.

    Raises:
        NoModelError: there is none.
    """
    paths = sorted((data_dir / "models").glob("[!.]*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in paths:
        kept = read_model(path)
        if kept.record == record:
            return kept
    raise NoModelError(f"this device was in no matrix factorization of {record} to its end; give the answer's file")
