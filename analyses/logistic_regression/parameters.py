"""The parameters of a logistic regression."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from analyses.job.job import Finite
from analyses.logistic_regression.descent import Optimiser
from analyses.logistic_regression.taylor_gradient import WRONG_SIGN_BEYOND, Release
from analyses.rows.row_plan import MAX_GAMMA, RowParams

MAX_ITERATIONS = 20_000

Method = Literal["moments", "gradient"]

_OF_GRADIENTS = frozenset(
    {
        "iterations",
        "sampling_rate",
        "most_participations",
        "order",
        "release",
        "optimiser",
        "learning_rate",
        "weight_norm",
        "weight_gamma",
        "intercept",
    }
)


class LogisticRegressionParams(RowParams):
    """Parameters of the analysis, besides those of the rows.

    Attributes:
        label: "party.column", the column to predict: 0 or 1, bounds 0 and 1, named among that party's columns.
        max_rows: see `JointRowsParams`. It sizes the field; with method `gradient`, sampling_rate * max_rows divides
            the sum of a batch's gradients: how large a batch is, the coordinator never learns.
        method: `moments`, one noisy release of the second moments of features and label, from which all weights follow;
            or `gradient`, noisy gradients one after the other. All parameters that follow belong to `gradient`.
        iterations: gradient steps.
        sampling_rate: probability of each record to enter a batch. Default: every record is in every step.
        most_participations: how many batches a record enters at most. Default: what 1 % of the records would exceed.
        order: 1 or 3, of the sigmoid's Taylor polynomial. Order 3 needs two more rounds per step and weight_norm below
            sqrt(12).
        release: `gradient`, or the paper's `three-sums` (order 1 only).
        optimiser, learning_rate: how the coordinator steps; `adam` or `sgd`.
        weight_norm: c_w, radius of the ball that the weights stay in, in units in which rows have norm 1. The noise
            grows with it. Default 8; 3 for order 3.
        weight_gamma: units per 1 of the weights sent to the parties. Default 1024; 32 for order 3.
        intercept: whether a constant column is added; `moments` always has one. With `gradient` it takes its share of
            the squared row_norm: 1 with origin `lower`, 1/4 with `middle`.
        gamma: units per 1 in the quantised table. Default 65536; 1024 for `gradient`, 128 for its order 3.
        origin: which value of a column becomes 0. Default: `middle`, with which rows are shortest if nothing more is
            known of them; `lower` where `row_norm` is given, which is then a bound of rows scaled to [0, 1].
        row_norm: public bound of the Euclidean norm of a row's features after scaling each column to a range of length
            1, with method `gradient` the constant included. Default: clips nothing.
        norm_bounds: party to its share of row_norm; the squares, and the constant's with method `gradient`, sum up to
            row_norm^2 at most.
    """

    label: Annotated[str, Field(pattern=r"^[^.]+\..+$")]
    method: Method = "moments"
    iterations: Annotated[int, Field(ge=1, le=MAX_ITERATIONS)] = 30
    sampling_rate: Annotated[Finite, Field(ge=2.0**-32, le=1)] = 1.0
    most_participations: Annotated[int, Field(ge=1)] | None = None
    order: Literal[1, 3] = 1
    release: Release = "gradient"
    optimiser: Optimiser = "adam"
    learning_rate: Annotated[Finite, Field(gt=0)] = 0.5
    weight_norm: Annotated[Finite, Field(gt=0, le=1e6)] = 8.0
    weight_gamma: Annotated[int, Field(ge=1, le=1 << 20)] = 1024
    intercept: bool = True
    gamma: Annotated[int, Field(ge=2, le=MAX_GAMMA)] = 65536

    @model_validator(mode="before")
    @classmethod
    def _defaults_follow_the_method(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        by_gradients, is_cubic = given.get("method") == "gradient", given.get("order") == 3
        defaults: dict[str, Any] = {"origin": "middle" if given.get("row_norm") is None else "lower"}
        if by_gradients:
            defaults["gamma"] = 128 if is_cubic else 1024
        if by_gradients and is_cubic:
            defaults |= {"weight_gamma": 32, "weight_norm": 3.0}
        return defaults | given

    @model_validator(mode="after")
    def _choices_fit_each_other(self) -> Self:
        if self.method != "gradient" and (given := sorted(_OF_GRADIENTS & self.model_fields_set)):
            raise ValueError(f"{given[0]}: can only be given with method 'gradient'")
        if self.order == 3 and self.release == "three-sums":
            raise ValueError("release: 'three-sums' exists for order 1 only; use 'gradient' with order 3")
        if self.order == 3 and self.weight_norm >= WRONG_SIGN_BEYOND:
            raise ValueError(
                f"weight_norm: {self.weight_norm:g} is too large for order 3, whose gradient has the wrong sign "
                "beyond sqrt(12) = 3.46; use order 1 or a smaller norm"
            )
        return self

    @property
    def label_party(self) -> str:
        """The party that brings the label."""
        return self.label.split(".", 1)[0]

    @property
    def label_column(self) -> str:
        """Name of the label among the columns of that party."""
        return self.label.split(".", 1)[1]
