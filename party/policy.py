"""The owner's policy: which jobs are accepted without asking, which need the owner's approval, which are refused.

Two sets of rules, each a list of conditions that a job must meet; what a set does not mention, it does not restrict.

    [policy.automatic]   a job within these is accepted at once, as far as the budget goes
    [policy.limits]      a job outside these is refused, and the analyst is told which rule it breaks

What is between waits for `moiety party approve`. Without `[policy.automatic]` every job does.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from analyses.job.column_names import expanded_names
from analyses.job.job import LEAST_EPSILON, Epsilon, Finite, Matching, MatchingKind, Name, Security
from analyses.names import NAMES
from ledger.spending import Cover
from service.settings import Settings


@dataclass(frozen=True)
class Request:
    """The facts about a job that the rules use.

    Attributes:
        analyst: who submitted it, as the coordinator says.
        analysis: what it computes.
        table: table of this party; empty where the party only computes.
        columns: columns of that table, as analyses see them, and of a product its factors.
        sources: encoded column to the column of the owner's table that it comes from; others come from themselves.
        n_compute_parties: N.
        colluding: t, how large a coalition the job withstands.
        receivers: names of those that get the result.
        epsilon: epsilon of the job alone, worst view, at the budget's delta, or at the job's where the party only
            computes and has no budget; None while it is not planned yet, and for an exact answer.
        analyst_cover: how all of the analyst's jobs of the period on this table, with this one, stand to an epsilon; of
            this job alone where the party only computes; None likewise.
        is_exact: whether the answer has no noise, so that no epsilon describes it.
        matching: how rows of the table are matched with others; None where they are not.
        where: the filter that rows of the table must pass, by its name; None where all take part.
        where_columns: columns of the owner's table that the filter asks about.
        stated_epsilon: epsilon that the job asks for, at its own delta; None while it is not planned, and for an exact
            answer.
        helpers: the other compute parties that bring no table.
        has_intermediate_products: returns what `Plan` says, which takes a while; None while the job is not planned yet.
        security: members against which the job holds.
        program: digest of the analyst's own program that the job runs; None where it runs none, or is not planned yet.
    """

    analyst: str
    analysis: str
    table: str
    columns: tuple[str, ...]
    n_compute_parties: int
    colluding: int
    receivers: tuple[str, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    epsilon: float | None = None
    analyst_cover: Callable[[float], Cover] | None = None
    is_exact: bool = False
    matching: MatchingKind | None = None
    where: str | None = None
    where_columns: tuple[str, ...] = ()
    stated_epsilon: float | None = None
    helpers: tuple[str, ...] = ()
    has_intermediate_products: Callable[[], bool] | None = None
    security: Security = "semi-honest"
    program: str | None = None


FiltersOfTable = tuple[Name, ...] | dict[Name, tuple[Name, ...]]
"""Names of filters that any analyst may name, or each with the analysts who may."""


class Rules(Settings):
    """Conditions that a job must meet, whether the party brings a table or only computes.

    Absent means any, except for `exact_tables`: absent means none; and for `matching` in `automatic`.

    Attributes:
        analyses: names of analyses.
        analysts: who may submit.
        columns: table to the columns that may be used, ranges such as `pixel_{0..63}` among them; a table that is not
            named may not be used. A column of the table stands for all that it is encoded as.
        filters: table to the filters that jobs may name: `["adults"]` by any analyst, `{adults = ["ann"]}` by these.
            Of a table that is not named here those that ask about no other columns than `columns` allows: who counts
            rows by a filter counts by the columns that it asks about.
        min_epsilon_per_job: that a job may ask for, at its own delta: very many jobs of a tiny epsilon would otherwise
            cost next to nothing, and what each of them shows beside its answer would be free. In `limits` absent means
            LEAST_EPSILON.
        max_epsilon_per_job: maximum epsilon of one job, worst view, at the delta of the table's budget; where the party
            only computes, at the delta of the job. An exact answer has no epsilon: where the party only computes, a
            limit excludes it.
        max_epsilon_per_analyst: maximum epsilon of all jobs of one analyst on one table within a period, admitted by a
            filter of their own as those of the table are (`dp.cost.renyi_filter`): it holds however the analyst chooses
            jobs by the results of its own. Who pools results with other analysts is bounded by the table's budget.
            Where the party only computes, it holds for each job alone, as the party keeps no ledger of others' tables.
        min_compute_parties: the smallest number of compute parties.
        withstand_coalition: jobs must stay private against coalitions of so many parties (`colluding` of the job). In
            `limits` absent means as many as the job's compute parties allow, (N - 1) // 2; 0 allows also jobs that
            protect from the coordinator alone.
        receivers: names of analysts, coordinator and parties that may get results.
        helpers: names of other parties that may compute in jobs without bringing a table; an empty list admits none.
            They have no data of their own at stake.
        intermediate_products: `false` refuses jobs that compute further with products under shares: there a compute
            party that deviates reads rows although all inputs keep their bounds (docs/threat-model.md).
        security: `malicious` refuses jobs that hold only against members that follow the protocol.
        matching: how rows may be matched with those of other owners, "revealed" and "secret". In `automatic` absent
            means in secret only: whether others may learn who is in a table is a question of its own, which no epsilon
            answers. In `limits` absent means any that the table's section allows (`reveal` of `[tables.matching]`).
        programs: digests of analysts' own programs (analysis `circuit`) that may run, 64 hexadecimal digits each, as
            `moiety job plan` prints them. An empty list admits none; absent means any within the other rules.
        exact_tables: tables of which exact results may be opened: no noise protects anybody, no budget counts them.
    """

    analyses: tuple[str, ...] | None = None
    analysts: tuple[Name, ...] | None = None
    columns: dict[Name, Annotated[tuple[str, ...], AfterValidator(expanded_names)]] | None = None
    filters: dict[Name, FiltersOfTable] | None = None
    min_epsilon_per_job: Epsilon | None = None
    max_epsilon_per_job: Epsilon | None = None
    max_epsilon_per_analyst: Epsilon | None = None
    min_compute_parties: Annotated[int, Field(ge=3)] | None = None
    withstand_coalition: Annotated[int, Field(ge=0)] | None = None
    receivers: tuple[Name, ...] | None = None
    helpers: tuple[Name, ...] | None = None
    intermediate_products: bool | None = None
    security: Security | None = None
    matching: tuple[MatchingKind, ...] | None = None
    programs: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], ...] | None = None
    exact_tables: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _can_be_met(self) -> Self:
        for name in ("analyses", "analysts", "columns", "receivers"):
            if getattr(self, name) is not None and not getattr(self, name):
                raise ValueError(
                    f"{name}: an empty list would allow nothing; leave the field out, or leave out the whole section"
                )
        for name in self.analyses or ():
            if name not in NAMES:
                raise ValueError(f"analyses: there is no analysis {name!r}; available: {', '.join(sorted(NAMES))}")
        per_job, per_analyst = self.max_epsilon_per_job, self.max_epsilon_per_analyst
        if per_job is not None and per_analyst is not None and per_job > per_analyst:
            raise ValueError(
                "max_epsilon_per_job: must not be larger than max_epsilon_per_analyst, which is for all jobs of an "
                "analyst"
            )
        least = self.min_epsilon_per_job
        if least is not None and per_job is not None and least > per_job:
            raise ValueError("min_epsilon_per_job: must not be larger than max_epsilon_per_job")
        if self.analysts is not None and self.receivers is not None:
            without = sorted(set(self.analysts) - set(self.receivers))
            if without:
                raise ValueError(
                    f"receivers: analyst {without[0]!r} may submit jobs, but is not allowed to receive their results"
                )
        return self

    def objections(self, request: Request) -> list[str]:
        """Return the rules that a job breaks, as public texts; empty if it meets all."""
        found: list[str] = []
        if self.analyses is not None and request.analysis not in self.analyses:
            found.append(f"analysis {request.analysis!r} is not among {_listed(self.analyses)}")
        if self.analysts is not None and request.analyst not in self.analysts:
            found.append(f"analyst {request.analyst!r} is not among those that may submit")
        if self.columns is not None and request.table:
            found += self._objections_to_columns(request, self.columns)
        if request.where is not None and not self.admits_filter(request):
            found.append(f"filter {request.where!r} of table {request.table!r} may not be named by {request.analyst!r}")
        least = self.min_epsilon_per_job
        if least is not None and request.stated_epsilon is not None and request.stated_epsilon < least:
            found.append(f"epsilon {request.stated_epsilon:.4g} of the job is below {least:.4g} (min_epsilon_per_job)")
        if request.is_exact and request.table and request.table not in self.exact_tables:
            found.append(f"an exact result of table {request.table!r}, which has no privacy guarantee, is not allowed")
        if request.is_exact and not request.table and self._limits_epsilon:
            found.append("an exact result has no finite epsilon, so it is above every limit on epsilon")
        matching = request.matching if request.table else None
        if matching is not None and self.matching is not None and matching not in self.matching:
            found.append(f"matching of rows, {matching}: {Matching(kind=matching).reveals}")
        if self.min_compute_parties is not None and request.n_compute_parties < self.min_compute_parties:
            found.append(f"{request.n_compute_parties} compute parties are fewer than {self.min_compute_parties}")
        if self.withstand_coalition is not None and request.colluding < self.withstand_coalition:
            found.append(
                f"a job must withstand {self.withstand_coalition} colluding parties, not {request.colluding} "
                "(withstand_coalition)"
            )
        if self.receivers is not None:
            strangers = [name for name in request.receivers if name not in self.receivers]
            if strangers:
                found.append(f"{_listed(strangers)} may not get results")
        if self.helpers is not None:
            strangers = [name for name in request.helpers if name not in self.helpers]
            if strangers:
                found.append(f"{_listed(strangers)} may not compute without bringing a table (helpers)")
        multiplies = request.has_intermediate_products
        if self.intermediate_products is False and multiplies is not None and multiplies():
            why = "through which a deviating party can read rows, is not allowed (intermediate_products)"
            found.append(f"a job that computes further with products under shares, {why}")
        if self.security == "malicious" and request.security != "malicious":
            found.append('a job must hold against members that deviate: security = "malicious" (security)')
        if request.program is not None and self.programs is not None and request.program not in self.programs:
            found.append(f"program {request.program} is not among those that may run (programs)")
        most = self.max_epsilon_per_job
        if most is not None and request.epsilon is not None and not request.epsilon <= most:
            found.append(f"epsilon {request.epsilon:.4g} of the job is above {most:.4g} (worst view)")
        if self.max_epsilon_per_analyst is not None and request.analyst_cover is not None:
            cover = request.analyst_cover(self.max_epsilon_per_analyst)
            if not cover.is_covered:
                found.append(f"all jobs of analyst {request.analyst!r} would come to {cover.described()}")
        return found

    def admits_filter(self, request: Request) -> bool:
        """Say whether the filter that a job names may be named by its analyst."""
        named = (self.filters or {}).get(request.table)
        if isinstance(named, dict):
            return request.analyst in named.get(request.where or "", ())
        if named is not None:
            return request.where in named
        allowed = None if self.columns is None else self.columns.get(request.table, ())
        return allowed is None or set(request.where_columns) <= set(allowed)

    @property
    def _limits_epsilon(self) -> bool:
        return self.max_epsilon_per_job is not None or self.max_epsilon_per_analyst is not None

    @staticmethod
    def _objections_to_columns(request: Request, allowed: Mapping[str, Sequence[str]]) -> list[str]:
        if request.table not in allowed:
            return [f"table {request.table!r} is not among those that may be used"]
        may_be_used = set(allowed[request.table])
        others = [c for c in request.columns if not {c, request.sources.get(c, c)} & may_be_used]
        return [f"column {others[0]!r} of table {request.table!r} may not be used"] if others else []


class Answer(StrEnum):
    """The decision on a job."""

    ACCEPT = "accept"
    ASK = "ask"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Decision:
    """The policy's answer to a job.

    Attributes:
        answer: what to do.
        objections: why it is not accepted at once; public where it is refused.
        max_epsilons_per_analyst: that the ledger has to enforce with the answer, each by a filter of its own: what is
            accepted at once must keep the limits too, for theirs are about all jobs.
    """

    answer: Answer
    objections: tuple[str, ...] = ()
    max_epsilons_per_analyst: tuple[float, ...] = ()


class Policy(Settings):
    """Section `[policy]`.

    Attributes:
        automatic: a job that meets these is accepted without asking; absent: none is.
        limits: a job that does not meet these is refused.
        approval_deadline_s: seconds that a job waits for the owner's approval.
    """

    automatic: Rules | None = None
    limits: Rules = Rules()
    approval_deadline_s: Annotated[Finite, Field(gt=0, le=86400)] = 3600.0

    @model_validator(mode="after")
    def _automatic_is_within_the_limits(self) -> Self:
        if self.automatic is None:
            return self
        if self.automatic.max_epsilon_per_job is None:
            raise ValueError(
                "automatic.max_epsilon_per_job: missing; it states up to which epsilon jobs are accepted without asking"
            )
        for name in ("analyses", "analysts", "receivers", "matching", "helpers", "programs", "exact_tables"):
            ours, limit = getattr(self.automatic, name), getattr(self.limits, name)
            if ours is not None and limit is not None and not set(ours) <= set(limit):
                outside = sorted(set(ours) - set(limit))[0]
                raise ValueError(f"automatic.{name}: {outside!r} is accepted without asking, but outside limits.{name}")
        if self.automatic.intermediate_products and self.limits.intermediate_products is False:
            raise ValueError(
                "automatic.intermediate_products: true, but limits.intermediate_products refuses what it accepts"
            )
        for table, columns in (self.automatic.columns or {}).items():
            if self.limits.columns is not None and not set(columns) <= set(self.limits.columns.get(table, ())):
                raise ValueError(
                    f"automatic.columns: columns of {table!r} are accepted without asking, but outside limits"
                )
        for name, is_upper in (
            ("max_epsilon_per_job", True),
            ("max_epsilon_per_analyst", True),
            ("min_compute_parties", False),
            ("min_epsilon_per_job", False),
            ("withstand_coalition", False),
        ):
            ours, limit = getattr(self.automatic, name), getattr(self.limits, name)
            if ours is not None and limit is not None and (ours > limit if is_upper else ours < limit):
                raise ValueError(
                    f"automatic.{name}: {ours:g} is accepted without asking, but limits.{name} is {limit:g}"
                )
        per_job, per_analyst = self.automatic.max_epsilon_per_job, self.limits.max_epsilon_per_analyst
        if per_analyst is not None and per_job > per_analyst:
            raise ValueError(
                f"automatic.max_epsilon_per_job: a job of {per_job:g} is accepted without asking, but "
                f"limits.max_epsilon_per_analyst, for all of an analyst's jobs, is {per_analyst:g}"
            )
        return self

    def decide(self, request: Request) -> Decision:
        """Return the decision on a job, apart from its budget."""
        broken = self._limits_of(request).objections(request)
        if broken:
            return Decision(Answer.REFUSE, tuple(broken))
        of_limits, of_automatic = (
            () if rules is None or rules.max_epsilon_per_analyst is None else (rules.max_epsilon_per_analyst,)
            for rules in (self.limits, self.automatic)
        )
        if self.automatic is None:
            return Decision(Answer.ASK, ("the policy accepts nothing without asking",), of_limits)
        objections = self._automatic_of(self.automatic).objections(request)
        if objections:
            return Decision(Answer.ASK, tuple(objections), of_limits)
        return Decision(Answer.ACCEPT, (), of_limits + of_automatic)

    def _limits_of(self, request: Request) -> Rules:
        """Return the limits, with the floors filled in: of coalitions as many parties as a product can withstand."""
        floors = {
            "withstand_coalition": (request.n_compute_parties - 1) // 2,
            "min_epsilon_per_job": LEAST_EPSILON,
        }
        return self.limits.model_copy(update={k: v for k, v in floors.items() if getattr(self.limits, k) is None})

    def _automatic_of(self, rules: Rules) -> Rules:
        """Return rules of acceptance without asking, with the kinds of matching filled in: in secret only."""
        return rules if rules.matching is not None else rules.model_copy(update={"matching": ("secret",)})

    def contradiction(
        self,
        tables: Mapping[str, Sequence[str]],
        n_known_parties: int,
        coordinator: str,
        parties: Collection[str] = (),
        filters: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> str | None:
        """Return which part of this policy cannot be met with the rest of the configuration; None if all can.

        Args:
            tables: name to its columns with public bounds.
            n_known_parties: this party and its peers.
            coordinator: its name: it hands every result on, so it gets every result.
            parties: names of all that this party knows, its own among them.
            filters: name of a table to those of its filters.
        """
        for where, rules in (("automatic", self.automatic), ("limits", self.limits)):
            if rules is None:
                continue
            for table, columns in (rules.columns or {}).items():
                if table not in tables:
                    return f"policy.{where}.columns: there is no table {table!r}"
                missing = [column for column in columns if column not in tables[table]]
                if missing:
                    return f"policy.{where}.columns: column {missing[0]!r} of table {table!r} has no public bounds"
            for table, named in (rules.filters or {}).items():
                if table not in tables:
                    return f"policy.{where}.filters: there is no table {table!r}"
                unknown = [name for name in named if name not in filters.get(table, ())]
                if unknown:
                    return f"policy.{where}.filters: table {table!r} has no filter {unknown[0]!r}"
            strange = [table for table in rules.exact_tables if table not in tables]
            if strange:
                return f"policy.{where}.exact_tables: there is no table {strange[0]!r}"
            if rules.receivers is not None and coordinator not in rules.receivers:
                why = f"the coordinator {coordinator!r} gets every result, so without it no job could meet them"
                return f"policy.{where}.receivers: {why}"
            unknown = [name for name in rules.helpers or () if name not in parties]
            if unknown:
                return f"policy.{where}.helpers: there is no party {unknown[0]!r} among the peers"
            coalition = rules.withstand_coalition or 1
            needed = max(rules.min_compute_parties or 0, 2 * coalition + 1)
            if needed > n_known_parties:
                return (
                    f"policy.{where}: it asks for {needed} compute parties, but with its peers there are only "
                    f"{n_known_parties}: no job could meet it"
                )
        return None


def _listed(names: Sequence[str] | None) -> str:
    return ", ".join(map(repr, names or ()))
