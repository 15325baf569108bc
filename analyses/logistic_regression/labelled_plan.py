"""What both methods of logistic regression fix about the rows: features of bounded norm, a label, a constant."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property

from analyses.job.job import Job, JobError
from analyses.job.schema import BlockSchema
from analyses.logistic_regression.parameters import LogisticRegressionParams
from analyses.rows.quantise import BlockQuantiser, check_units, squared_norm_bound
from analyses.rows.reach import FURTHEST, squared_reach
from analyses.rows.row_plan import RowPlan


class LabelledRowPlan(RowPlan):
    """The part of a plan that defines how rows are scaled and quantised.

    Attributes:
        params: validated parameters.
        squared_norm_bounds: B_q per owner, of its features, in the order of `owners`; 0 for one that brings the label
            alone.
        constant: the constant column's integer, 0 without one.
    """

    params: LogisticRegressionParams

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that predict, `party.column`, in the order of the joint table."""
        return tuple(f"{s.party}.{c.name}" for s in map(self.features_of, self.owners) for c in s.columns)

    def features_of(self, member: int) -> BlockSchema:
        """Return the columns of an owner without the label."""
        return features_of(self.schema_of(member), self.params)

    def quantiser_of(self, member: int) -> BlockQuantiser:
        """Return what an owner does to its features."""
        bound = self.squared_norm_bounds[self.owners.index(member)]
        return BlockQuantiser(
            self.features_of(member), self.params.gamma, self.row_norm, bound, origin=self.params.origin
        )

    @property
    @abstractmethod
    def shares_constant(self) -> bool:
        """Whether the last owner shares the constant column, after all other columns."""

    @property
    @abstractmethod
    def label_values(self) -> tuple[int, int]:
        """The integers that stand for labels 0 and 1."""

    def width_of(self, member: int) -> int:
        """Return how many integers an owner shares per row, the label and a shared constant included."""
        return len(self.schema_of(member).columns) + (member == self.owners[-1] and self.shares_constant)

    @cached_property
    def label_index(self) -> int:
        """Place of the label in the shared table: last in its owner's block, but for a shared constant."""
        names = [s.party for s in map(self.schema_of, self.owners)]
        end = names.index(self.params.label_party) + 1
        return sum(list(self.widths.values())[:end]) - 1 - (end == len(names) and self.shares_constant)


def features_of(schema: BlockSchema, params: LogisticRegressionParams) -> BlockSchema:
    """Return the columns of a party without the label."""
    if schema.party != params.label_party:
        return schema
    columns = tuple(c for c in schema.columns if c.name != params.label_column)
    return schema.model_copy(update={"columns": columns})


def widths_of_features(job: Job, params: LogisticRegressionParams, schemas: Sequence[BlockSchema]) -> Mapping[str, int]:
    """Return how many features each owner brings, in the order of the inputs.

    Raises:
        JobError: the label is not what it should be, there is no feature, or weights may leave the range of float64.
    """
    by_party = {s.party: s for s in schemas}
    _check_label(job, params, by_party)
    widths = {i.party: len(features_of(by_party[i.party], params).columns) for i in job.inputs}
    if not any(widths.values()):
        raise JobError("inputs: the label is the only column; at least one feature is needed to predict it")
    check_units((f"{i.party}.{c.name}", c) for i in job.inputs for c in by_party[i.party].columns)
    return widths


def reaches_of_features(
    job: Job, params: LogisticRegressionParams, schemas: Sequence[BlockSchema]
) -> Mapping[str, Fraction]:
    """Return the squared norm of each owner's furthest features, in the order of the inputs; 0 where it has none."""
    by_party = {s.party: s for s in schemas}
    return {i.party: squared_reach(features_of(by_party[i.party], params).columns, params.origin) for i in job.inputs}


def _check_label(job: Job, params: LogisticRegressionParams, schemas: Mapping[str, BlockSchema]) -> None:
    party = params.label_party
    if party not in {i.party for i in job.inputs}:
        raise JobError(f"parameters.label: {party} has no input in this job, so it cannot provide the label")
    label = next((c for c in schemas[party].columns if c.name == params.label_column), None)
    if label is None:
        raise JobError(
            f"parameters.label: column {params.label_column!r} is not in the input of {party}; add it to the columns "
            "of that input"
        )
    if (label.lower, label.upper) != (0, 1):
        raise JobError(
            f"parameters.label: {params.label} has the bounds {label.lower:g} and {label.upper:g}; the bounds of a "
            "label must be 0 and 1"
        )


def squared_norm_bounds_of(
    params: LogisticRegressionParams, row_norm: float, reaches: Mapping[str, Fraction], *, constant: int
) -> tuple[int, ...]:
    """Return B_q of all owners.

    Args:
        params: parameters of the job.
        row_norm: default filled in.
        reaches: `reaches_of_features`.
        constant: the integer of a constant column that takes its share of the row norm; 0 where there is none.

    Raises:
        JobError: the norms do not fit, or round every value of a party to zero.
    """
    gamma, with_features = params.gamma, [p for p, reach in reaches.items() if reach]
    if params.norm_bounds:
        if set(params.norm_bounds) != set(with_features):
            raise JobError(
                f"parameters.norm_bounds: must have one entry for each of the parties {', '.join(with_features)} and "
                "no other"
            )
        bounds = {p: squared_norm_bound(gamma, params.norm_bounds[p], row_norm) for p in with_features}
    else:
        in_all = sum(reaches.values()) + Fraction(FURTHEST[params.origin]) ** 2 * (constant > 0)
        bounds = {p: gamma**2 * reaches[p] // in_all for p in with_features}
    if sum(bounds.values()) + constant**2 > gamma**2:
        and_constant = " and the constant column's" if constant else ""
        raise JobError(
            f"parameters.norm_bounds: the sum of their squares{and_constant} is larger than the square of row_norm"
        )
    for party, bound in bounds.items():
        if bound < 1:
            raise JobError(
                f"parameters.gamma: with {gamma} every value of {party} would be rounded to zero; choose a larger gamma"
            )
    return tuple(bounds.get(party, 0) for party in reaches)
