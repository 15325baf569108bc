"""A job: what an analyst asks for. It is public, and all participants read the same text."""

import json
import math
import sys
import tomllib
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from analyses.job.column_names import expanded_names
from mpc.public_text import check_public, made_public

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""Names of parties, tables, analysts: what fits a host name, a file name and a certificate."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]

MAX_TITLE_CHARACTERS = 200


class JobError(ValueError):
    """A job that cannot be run as written; the text names the field."""

    code: str = "job-invalid"


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Finite = Annotated[float, AfterValidator(_finite)]


def _normal(value: float) -> float:
    if value < sys.float_info.min:
        raise ValueError("must be positive and not a subnormal number")
    return _finite(value)


Epsilon = Annotated[float, Field(strict=True), AfterValidator(_normal)]
"""A positive normal float. Text and booleans are refused; subnormal numbers are, too, because they have lost digits."""

Delta = Annotated[Epsilon, Field(lt=1)]
"""A positive normal float below 1."""


def _title(text: str) -> str:
    check_public(text, "title", most_characters=MAX_TITLE_CHARACTERS)
    if "  " in text or text != text.strip():
        raise ValueError("must not begin or end with a space, and must not contain two spaces in a row")
    return text


class PublicModel(BaseModel):
    """Base class of public data that participants compare byte by byte.

    All texts in it, including those in `Any` and the names of fields, obey the rule of `mpc.public_text`, so they can
    be shown to people as they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _texts_show_what_they_are(self) -> Self:
        for name in type(self).model_fields:
            check_public(getattr(self, name), name)
        return self

    def __copy__(self) -> Self:
        """Return a copy without what was derived from the fields: `model_copy` may change them."""
        copied = super().__copy__()
        for derived in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[derived]
        return copied

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
            raise JobError(explain(error)) from error


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
    keep: Annotated[bool, Field(strict=True, exclude_if=lambda keep: not keep)] = False
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
        parameters: of the analysis.
        matching: how the rows of the owners' tables are matched; absent where all hold the same rows in the same order.
            The JSON of such jobs does not show the field.
        anyway: whether the job is wanted although no answer could be seen in its noise (`analyses.job.hopeless`); the
            JSON of other jobs does not show the field.
    """

    analysis: str
    title: Annotated[str, AfterValidator(_title)] = ""
    inputs: Annotated[tuple[JobInput, ...], Field(min_length=1)]
    compute: tuple[Name, ...] = ()
    colluding: Annotated[int, Field(ge=1)] | None = None
    deadline_s: Annotated[Finite, Field(gt=0, le=86400)] = 30.0
    target: Annotated[PrivacyTarget | None, Field(alias="privacy")] = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    matching: Annotated[Matching | None, Field(exclude_if=lambda matching: matching is None)] = None
    anyway: Annotated[bool, Field(strict=True, exclude_if=lambda anyway: not anyway)] = False

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
    def compute_parties(self) -> tuple[str, ...]:
        """Names of the compute parties: party number i is element i - 1."""
        return self.compute or tuple(i.party for i in self.inputs)

    @property
    def members(self) -> tuple[str, ...]:
        """All members by number: compute parties first (1..N), then input-only parties."""
        compute = self.compute_parties
        return compute + tuple(i.party for i in self.inputs if i.party not in compute)

    @property
    def t(self) -> int:
        """Colluding compute parties tolerated."""
        return (len(self.compute_parties) - 1) // 2 if self.colluding is None else self.colluding

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a job file.

        Raises:
            JobError: not TOML, or a field is missing, unknown or out of range; the text names each.
        """
        try:
            return cls.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise JobError(f"the job is not valid TOML: {error}") from error
        except ValidationError as error:
            raise JobError(explain(error)) from error


PLAIN_WORDS = {"missing": "missing", "extra_forbidden": "there is no such field"}
"""Texts for the most frequent mistakes, by pydantic's error type."""


MAX_PROBLEMS_SHOWN = 20
MAX_LINE_CHARACTERS = 500
"""Limits of an explanation, which is stored and sent to all participants of the job."""


def explain(error: ValidationError) -> str:
    """Say in one line per problem which field is wrong and why; the last line counts the problems that are left out."""
    lines = []
    for problem in error.errors(include_url=False, include_context=False)[:MAX_PROBLEMS_SHOWN]:
        where = ".".join(str(part) for part in problem["loc"]) or "job"
        shown = "" if isinstance(problem["input"], (dict, list, tuple)) else f", got {problem['input']!r}"
        message = PLAIN_WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        lines.append(made_public(f"{where}: {message}{shown}", MAX_LINE_CHARACTERS))
    if (n_more := error.error_count() - MAX_PROBLEMS_SHOWN) > 0:
        lines[-1] += f" (and {n_more} more problems)"
    return "\n".join(lines)
