"""What can be said of a job before it is submitted: its cost, the errors that are expected, what the network takes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from analyses.job.distance import Distance, Work, distance_of
from analyses.job.forecast import Enough, Forecast, Wanted, enough_for
from analyses.job.job import SECURITY_IN_WORDS, Job, JobError, Security
from analyses.job.schema import BlockSchema
from analyses.job.survival import Survival
from analyst.catalogue import Catalogue
from results.generic.html import page_of
from results.generic.text import whose_rows

if TYPE_CHECKING:
    import polars

    from dp.cost.job_cost import JobCost

FORECAST_COLUMNS = (
    "name",
    "unit",
    "standard_error",
    "half_width",
    "best_half_width",
    "best_case",
    "bad_case",
    "at_fewest_rows",
    "seen_from",
    "least",
    "largest",
)
"""Columns of the table of a forecast: `half_width` is that of a 95 % interval in the bad case, which an owner approves
on."""


OF_ONE_RELEASE = ("least-squares", "logistic-regression", "pca")
"""Analyses that are questions to second moments that were released once."""


@dataclass(frozen=True)
class MoreJobs:
    """How many more jobs like one a table's budget admits, where its owner lets that be seen.

    Attributes:
        party, table: which.
        period: period of the budget.
        jobs: about how many.
        of_one_release: about how many jobs of `second-moments` over the same columns it admits instead, each of which
            answers any number of such questions; None where the job is no such question.
    """

    party: str
    table: str
    period: str
    jobs: int
    of_one_release: int | None = None

    @property
    def line(self) -> str:
        """The same in words."""
        said = f"{self.party}.{self.table}: about {self.jobs} such jobs more until period {self.period!r} ends"
        if self.of_one_release is None:
            return said
        return f"{said}, or {self.of_one_release} of second-moments"


@dataclass(frozen=True)
class JobPlan:
    """What can be said of a job before it is submitted.

    Attributes:
        survival: how many parties may drop out or send corrupted shares.
        columns: columns of the joint table, `party.column`.
        rows: description of the rows that the result would be about.
        privacy: what the job would cost in privacy, in both views; None for an exact answer.
        forecast: the errors that are expected of the result, and whether the job is infeasible.
        security: members against which the job would hold.
        distance: flights, bytes and seconds of the network, for members that are far apart; None where it is not said.
        work: memory and, where this machine was measured, processor time that the services take; None where it is not
            said.
        more: how many such jobs more the tables' budgets admit, where their owners let that be seen.
        instead: what one release that answers this and other questions would cost; empty where none does.
        enough: what would bring a wanted error about, where one is.
    """

    survival: Survival
    columns: tuple[str, ...]
    rows: str
    privacy: dict[str, Any] | None
    forecast: Forecast
    distance: Distance | None = None
    security: Security = "semi-honest"
    more: tuple[MoreJobs, ...] = ()
    instead: str = ""
    work: Work | None = None
    enough: Enough | None = None

    def __repr__(self) -> str:
        forecast = [f"  {line}" for line in self._errors(self.forecast)]
        return "\n".join([*self._cost(), "", "forecast", *forecast, "", *self._network(), self.survival.as_text()])

    def _repr_html_(self) -> str:
        rows = [one.as_dict() for one in self.forecast.quantities]
        columns = {name: [row[name] for row in rows] for name in FORECAST_COLUMNS} if rows else {}
        said = self._errors(replace(self.forecast, quantities=()))
        return page_of("Plan", columns, [*said, "", *self._cost(), "", *self._network(), self.survival.as_text()])

    def to_polars(self) -> "polars.DataFrame":
        """Return the forecast as a table, a row per quantity of the result; see `analyses.job.forecast.Quantity`."""
        import polars

        rows = [one.as_dict() for one in self.forecast.quantities]
        kinds = [polars.String if name in ("name", "unit") else polars.Float64 for name in FORECAST_COLUMNS]
        return polars.DataFrame(rows, schema=dict(zip(FORECAST_COLUMNS, kinds, strict=True)), orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            **asdict(self.survival),
            "columns": list(self.columns),
            "rows": self.rows,
            "privacy": self.privacy,
            "security": self.security,
            "forecast": self.forecast.as_dict(),
            "distance": None if self.distance is None else self.distance.as_dict(),
            "work": None if self.work is None else self.work.as_dict(),
            "more_jobs": [asdict(one) for one in self.more],
            "instead": self.instead or None,
            "enough": None if self.enough is None else self.enough.as_dict(),
        }

    def _errors(self, forecast: Forecast) -> list[str]:
        return [*forecast.lines(), *([] if self.enough is None else self.enough.lines())]

    def _network(self) -> list[str]:
        """Return what network and machines take, each before an empty line; nothing where that is not known."""
        parts = {"network": self.distance, "work": self.work}
        said = {name: part.lines() for name, part in parts.items() if part is not None}
        return [line for name, lines in said.items() for line in (name, *(f"  {one}" for one in lines), "")]

    def _cost(self) -> list[str]:
        from dp.cost.report import describe

        cost = ["an exact answer: it has no privacy guarantee"] if self.privacy is None else describe(self.privacy)
        rows = f"about {self.rows}\nsecurity: {SECURITY_IN_WORDS[self.security]}"
        more = [*(one.line for one in self.more), *filter(None, [self.instead])]
        return [f"columns: {', '.join(self.columns) or 'none'}", rows, "", *cost, *more]


def plan_of(job: Job, catalogue: Catalogue, *, measured: bool = False, wanted: Wanted | None = None) -> JobPlan:
    """Return what can be said of a job before it is submitted; raises as `AsyncClient.plan`.

    Args:
        job: what would be asked.
        catalogue: what the parties list.
        measured: whether this machine is measured, for a second or two, to say processor time.
        wanted: an error that the analyst wants; the plan says the epsilon for it.
    """
    from analyses.registry import analysis_of

    analysis, schemas = analysis_of(job), catalogue.schemas_of(job)
    plan = analysis.plan(job.model_copy(update={"anyway": True}), schemas)
    privacy = None if plan.is_exact else plan.privacy_report()
    parts = analysis.survival(job), plan.column_names, whose_rows(job, joins=analysis.joins_rows(job)), privacy
    work = analysis.work(plan, measured=measured)
    if plan.is_exact:
        if wanted is not None:
            raise JobError("within: the answer is exact, so it has no error")
        return JobPlan(*parts, analysis.forecast(plan), distance_of(plan), job.security, work=work)
    release, forecast = _one_release(job, catalogue), analysis.forecast(plan)
    more, instead = _more(job, catalogue, plan.cost(), release), _instead(job, plan.cost(), release)
    enough = None if wanted is None else _enough(job, schemas, wanted, forecast)
    return JobPlan(*parts, forecast, distance_of(plan), job.security, more, instead, work, enough)


def _enough(job: Job, schemas: Sequence[BlockSchema], wanted: Wanted, planned: Forecast) -> Enough:
    from analyses.registry import analysis_of

    analysis = analysis_of(job)

    def at_epsilon(epsilon: float) -> Forecast:
        target = job.privacy.model_copy(update={"epsilon": epsilon})
        return analysis.own_forecast(analysis.plan(job.model_copy(update={"target": target, "anyway": True}), schemas))

    return enough_for(wanted, planned, job.privacy.epsilon, at_epsilon)


def _one_release(job: Job, catalogue: Catalogue) -> "JobCost | None":
    """Return the cost of second moments that answer a job's question and others; None where there are none."""
    from analyses.registry import analysis_of

    if job.analysis not in OF_ONE_RELEASE:
        return None
    kept = {name: value for name, value in job.parameters.items() if name == "max_rows"}
    asked = {"analysis": "second-moments", "parameters": kept, "anyway": True}
    other = job.model_copy(update=asked)
    try:
        return analysis_of(other).plan(other, catalogue.schemas_of(other)).cost()
    except JobError:  # its columns or its privacy are not for such a release
        return None


def _more(job: Job, catalogue: Catalogue, cost: "JobCost", release: "JobCost | None") -> tuple[MoreJobs, ...]:
    from dp.cost.more_jobs import more_jobs

    found = []
    for brought in job.inputs:
        budget = catalogue.parties[brought.party][brought.table].budget
        if budget is None or budget.unit != cost.unit:
            continue
        limits = budget.epsilon, budget.delta, budget.remaining_part
        others = None if release is None else more_jobs(release, *limits)
        found.append(MoreJobs(brought.party, brought.table, budget.period, more_jobs(cost, *limits), others))
    return tuple(found)


def _instead(job: Job, cost: "JobCost", release: "JobCost | None") -> str:
    if release is None:
        return ""
    mine, its = (one.epsilon(job.privacy.delta).epsilon for one in (cost, release))
    return (
        f"instead: a job of second-moments over these columns would cost epsilon {its:.4g}, and this job costs "
        f"{mine:.4g}; what that releases answers regressions of any of them, components, correlations and tables, and "
        "nothing is paid again"
    )
