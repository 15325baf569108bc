"""A job: what an analyst asks for. It is public, and all participants read the same text."""

import json
import math
import sys
import tomllib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from analyses.job.column_names import expanded_names, n_named
from mpc.field_faults import fault_in_words, fields_beside, place_in_words, toml_fault
from mpc.public_text import check_public, made_public
from mpc.strict_model import StrictModel

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""Names of parties, tables, analysts: what fits a host name, a file name and a certificate."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]

MAX_TITLE_CHARACTERS = 200

MAX_BRINGING = MAX_COMPUTING = 256
"""Parties that bring columns to a job, and that compute in it: each member looks through all of them many times."""

MAX_NAMED = 1 << 17
"""Columns that the inputs of a job name together: more than the schemas of its parties can have (4 MiB)."""


class JobError(ValueError):
    """A job that cannot be run as written; the text names the field."""

    code: str = "job-invalid"


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Finite = Annotated[float, AfterValidator(_finite)]


def _normal(value: float) -> float:
    if value <= 0:
        raise ValueError("must be greater than 0")
    if value < sys.float_info.min:
        raise ValueError("must be positive and not a subnormal number")
    return _finite(value)


Epsilon = Annotated[float, AfterValidator(_normal)]
"""A positive normal float. Text and booleans are refused; subnormal numbers are, too, because they have lost digits."""

LEAST_EPSILON = 1e-3
"""Smallest epsilon of one job or question that is answered where an owner's policy states none."""

Delta = Annotated[Epsilon, Field(lt=1)]
"""A positive normal float below 1."""


def _title(text: str) -> str:
    check_public(text, "title", most_characters=MAX_TITLE_CHARACTERS)
    if "  " in text or text != text.strip():
        raise ValueError("must not begin or end with a space, and must not contain two spaces in a row")
    return text


class PublicModel(StrictModel):
    """Base class of public data that participants compare byte by byte.

    All texts in it, including those in `Any` and the names of fields, obey the rule of `mpc.public_text`, so they can
    be shown to people as they are.
    """

    @model_validator(mode="after")
    def _texts_show_what_they_are(self) -> Self:
        for name in type(self).model_fields:
            check_public(getattr(self, name), name)
        return self

    def canonical_json(self) -> str:
        """Return the one JSON text of this object: sorted keys, no spaces, no NaN."""
        tree = self.model_dump(mode="json", by_alias=True)
        return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the canonical JSON.

        Raises:
            JobError: a field is missing, unknown or out of range; the text names each.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise JobError(explain(error, cls)) from None


class PrivacyTarget(PublicModel):
    """The privacy guarantee that the noise must provide.

    Attributes:
        epsilon, delta: the bound.
        view: the adversary that the bound is for. `coalition`: the coordinator together with the `colluding` parties,
            who know their own noise and the number of rows (adjacency replace_one), and the coordinator by itself too:
            the bound is met in both views. `coordinator`: the coordinator alone (adjacency add_or_remove_one). The
            report always states both, and ledgers are charged the worse.
    """

    epsilon: Epsilon
    delta: Delta
    view: Literal["coalition", "coordinator"] = "coalition"


class JobInput(PublicModel):
    """Columns of one party's table.

    Attributes:
        party: whose.
        table: the table's name in that party's configuration.
        columns: which feature columns, in this order; empty means all but those that must be asked for by name.
            `pixel_{0..63}` stands for `pixel_0` to `pixel_63`.
        where: the filter that rows must pass, one that the table's owner publishes; absent: all rows. The JSON of such
            inputs does not show the field.
    """

    party: Name
    table: Name
    columns: Annotated[tuple[str, ...], AfterValidator(expanded_names)] = ()
    where: Annotated[Name | None, Field(exclude_if=lambda where: where is None)] = None


Security = Literal["semi-honest", "malicious"]
"""Members against which a job holds (docs/protocols/malicious.md)."""

SECURITY_IN_WORDS: dict[str, str] = {
    "semi-honest": "semi-honest: its privacy holds against members that follow the protocol",
    "malicious": "malicious: its privacy holds against members that deviate from the protocol, too",
}

MatchingKind = Literal["revealed", "secret"]


MatchId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$")]
"""The id of the job that made a kept match: what `service.job_id` takes."""


class Matching(PublicModel):
    """How the owners' rows are matched; each owner declares what identifies its own (`BlockSchema.matching`).

    Attributes:
        kind: `revealed`: each owner learns which of its own rows all owners have. `secret`: nobody learns of any row
            whether it matched, and nobody learns how many did.
        keep: whether each owner keeps which of its rows matched, for later jobs that name this one; the JSON of other
            jobs does not show the field.
        match: the id of an earlier job whose kept match takes the place of a new one; absent: rows are matched in this
            job, and its JSON does not show the field.
    """

    kind: MatchingKind
    keep: Annotated[bool, Field(exclude_if=lambda keep: not keep)] = False
    match: Annotated[MatchId | None, Field(exclude_if=lambda match: match is None)] = None

    @model_validator(mode="after")
    def _only_what_is_revealed_can_be_kept(self) -> Self:
        if self.kind != "revealed" and (self.keep or self.match is not None):
            raise ValueError(
                'keep, match: of rows that are matched in secret nobody has anything to keep; set kind to "revealed"'
            )
        if self.keep and self.match is not None:
            raise ValueError("keep, match: a job either makes a match to keep, or names one that is kept")
        return self

    @property
    def reveals(self) -> str:
        """What owners learn by it, in words."""
        if self.match is not None:
            return (
                f"each owner has learned from job {self.match} which of its rows all owners have, and learns nothing "
                "more of that; epsilon does not cover it"
            )
        if self.kind == "revealed":
            kept = ", and keeps that for later jobs" if self.keep else ""
            return f"each owner learns which of its rows all owners have{kept}; epsilon does not cover that"
        return "nobody learns which rows matched, nor how many"


UNCHECKED_ORDER = "nobody checked that a row is the same person everywhere"
"""Warning of a job that joins rows in the order of the tables."""


def _is_finite(tree: Any) -> bool:
    if isinstance(tree, float):
        return math.isfinite(tree)
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ()
    return all(map(_is_finite, inner))


def _finite_numbers(parameters: dict[str, Any]) -> dict[str, Any]:
    """Refuse numbers that are none: in JSON they become null, so members would compare the same text of other jobs."""
    for name, value in parameters.items():
        if not _is_finite(value):
            raise ValueError(f"{name}: must be a finite number, as must all that is in it")
    return parameters


def _not_too_many_columns(inputs: Any) -> Any:
    """Refuse a few bytes of patterns that stand for more names than there is memory for, before any is made."""
    found = inputs if isinstance(inputs, list | tuple) else ()
    named = (one.get("columns") for one in found if isinstance(one, dict))
    if sum(n_named(columns) for columns in named if isinstance(columns, list | tuple)) > MAX_NAMED:
        raise ValueError(f"name more than {MAX_NAMED} columns")
    return inputs


class Job(PublicModel):
    """What an analyst submits.

    Attributes:
        analysis: which one; a key of `analyses.registry.ANALYSES`.
        title: the analyst's words about it, one line for people; nothing depends on it.
        inputs: one per party that brings columns, in the order of the joint table's columns.
        compute: names of the parties that hold shares; empty means all parties that bring columns.
        colluding: t, the number of colluding compute parties tolerated; absent means the most that the roster allows
            for a product, (N - 1) // 2.
        deadline_s: a stage in which nothing arrives from a member for this long fails the job.
        target: the job's `privacy`; absent for an exact answer, which protects nobody: few analyses give one, and
            parties refuse it unless their owner allows it.
        parameters: parameters of the analysis.
        matching: how the rows of the owners' tables are matched; absent where all hold the same rows in the same order.
            The JSON of such jobs does not show the field.
        order: `trusted`: the tables have no ids, and rows are joined in the order in which each owner holds them,
            which nobody can check; absent where ids are compared or rows are matched. The JSON of such jobs does not
            show the field.
        anyway: whether the job is wanted although no answer could be seen in its noise (`analyses.job.infeasible`); the
            JSON of other jobs does not show the field.
        security: against which members the promise of privacy holds. `semi-honest`: against those that follow the
            protocol. `malicious`: against those that deviate, too; owners prove that their rows keep their bounds
            before anything is opened, and analyses that cannot do so refuse the job. The JSON of semi-honest jobs does
            not show the field.
    """

    analysis: str
    title: Annotated[str, AfterValidator(_title)] = ""
    inputs: Annotated[
        tuple[JobInput, ...], Field(min_length=1, max_length=MAX_BRINGING), BeforeValidator(_not_too_many_columns)
    ]
    compute: Annotated[tuple[Name, ...], Field(max_length=MAX_COMPUTING)] = ()
    colluding: Annotated[int, Field(ge=1)] | None = None
    deadline_s: Annotated[Finite, Field(gt=0, le=86400)] = 30.0
    target: Annotated[PrivacyTarget | None, Field(alias="privacy")] = None
    parameters: Annotated[dict[str, Any], AfterValidator(_finite_numbers)] = Field(default_factory=dict)
    matching: Annotated[Matching | None, Field(exclude_if=lambda matching: matching is None)] = None
    order: Annotated[Literal["trusted"] | None, Field(exclude_if=lambda order: order is None)] = None
    anyway: Annotated[bool, Field(exclude_if=lambda anyway: not anyway)] = False
    security: Annotated[Security, Field(exclude_if=lambda security: security == "semi-honest")] = "semi-honest"

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        for what, names in (("inputs", [i.party for i in self.inputs]), ("compute", list(self.compute))):
            repeated = sorted({name for name in names if names.count(name) > 1})
            if repeated:
                raise ValueError(f"{what}: party {repeated[0]!r} appears more than once")
        return self

    @property
    def privacy(self) -> PrivacyTarget:
        """The target of a job whose answer is noisy.

        Raises:
            JobError: the job has none.
        """
        if self.target is None:
            raise JobError("privacy: missing; the answer of this analysis is noisy, so it needs epsilon and delta")
        return self.target

    @property
    def is_malicious(self) -> bool:
        """Whether the job is to hold against members that deviate."""
        return self.security == "malicious"

    @property
    def compute_parties(self) -> tuple[str, ...]:
        """Names of the compute parties: party number i is element i - 1."""
        return self.compute or tuple(i.party for i in self.inputs)

    @property
    def helpers(self) -> tuple[str, ...]:
        """Names of the compute parties that bring no table."""
        return tuple(name for name in self.compute if name not in {i.party for i in self.inputs})

    @property
    def members(self) -> tuple[str, ...]:
        """All members by number: compute parties first (1..N), then input-only parties."""
        compute = self.compute_parties
        return compute + tuple(i.party for i in self.inputs if i.party not in compute)

    def peers_of(self, name: str) -> frozenset[str]:
        """Return the members that a member sends to: all, for a compute party; for another one the compute parties.

        Two members of whom neither computes send each other nothing, unless owners match their rows.
        """
        others = self.members if name in self.compute_parties else self.compute_parties
        owners = () if self.matching is None else tuple(brought.party for brought in self.inputs)
        return frozenset({*others, *owners}) - {name}

    @property
    def t(self) -> int:
        """Colluding compute parties tolerated: each other one, where there are two."""
        return max(1, (len(self.compute_parties) - 1) // 2) if self.colluding is None else self.colluding

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a job file.

        Raises:
            JobError: not TOML, or a field is missing, unknown or out of range; the text names each.
        """
        try:
            return cls.model_validate(tree_of_toml(text, "the job"))
        except ValidationError as error:
            raise JobError(explain(error, cls)) from None


def tree_of_toml(text: str, what: str = "the question") -> dict[str, Any]:
    """Read the fields of a job or a question; raises `JobError` where its text is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{what} is not valid TOML: {toml_fault(error)}") from None


MAX_PROBLEMS_SHOWN = 20
MAX_LINE_CHARACTERS = 500
"""Limits of an explanation, which is stored and sent to all participants of the job."""


def explain(error: ValidationError, model: type[BaseModel] | None = None, also: Sequence[str] = ()) -> str:
    """Say in one line per problem which field is wrong and why; the last line counts the problems that are left out.

    Args:
        error: error of the library.
        model: that was to be read; None where it is not known.
        also: further names that an unknown field may have been meant for.
    """
    lines = []
    for problem in error.errors(include_url=False)[:MAX_PROBLEMS_SHOWN]:
        where = place_in_words(problem["loc"]) or "job"
        shown = "" if isinstance(problem["input"], (dict, list, tuple)) else f", got {problem['input']!r}"
        fields = () if model is None else fields_beside(model, problem["loc"])
        message = fault_in_words(problem, (*fields, *also))
        lines.append(made_public(f"{where}: {message}{shown}", MAX_LINE_CHARACTERS))
    if (n_more := error.error_count() - MAX_PROBLEMS_SHOWN) > 0:
        lines[-1] += f" (and {n_more} more problems)"
    return "\n".join(lines)


def parameters_error(error: ValidationError, model: type[BaseModel], where: str = "parameters") -> JobError:
    """Return the error of a job whose parameters are wrong; a field of the job itself may have been meant.

    Args:
        error: error of the library.
        model: model of the parameters.
        where: they stand in the job.
    """
    fields = [found.alias or name for name, found in Job.model_fields.items()]
    lines = explain(error, model, (*fields, *PrivacyTarget.model_fields)).splitlines()
    return JobError("\n".join(f"{where}.{line}" for line in lines))
