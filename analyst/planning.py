"""What can be said of a job before it is submitted: its cost, the errors that are expected, what the network takes."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from analyses.job.distance import Distance, distance_of
from analyses.job.forecast import Forecast
from analyses.job.job import SECURITY_IN_WORDS, Job, Security
from analyses.job.survival import Survival
from analyst.catalogue import Catalogue
from results.generic.html import page_of
from results.generic.text import whose_rows

if TYPE_CHECKING:
    import polars

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
    """

    survival: Survival
    columns: tuple[str, ...]
    rows: str
    privacy: dict[str, Any] | None
    forecast: Forecast
    distance: Distance | None = None
    security: Security = "semi-honest"

    def __repr__(self) -> str:
        forecast = [f"  {line}" for line in self.forecast.lines()]
        return "\n".join([*self._cost(), "", "forecast", *forecast, "", *self._network(), self.survival.as_text()])

    def _repr_html_(self) -> str:
        rows = [one.as_dict() for one in self.forecast.quantities]
        columns = {name: [row[name] for row in rows] for name in FORECAST_COLUMNS} if rows else {}
        said = replace(self.forecast, quantities=()).lines()
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
        }

    def _network(self) -> list[str]:
        """Return what the network takes, and an empty line; nothing where that is not known."""
        return [] if self.distance is None else ["network", *(f"  {line}" for line in self.distance.lines()), ""]

    def _cost(self) -> list[str]:
        from dp.cost.report import describe

        cost = ["an exact answer: it has no privacy guarantee"] if self.privacy is None else describe(self.privacy)
        rows = f"about {self.rows}\nsecurity: {SECURITY_IN_WORDS[self.security]}"
        return [f"columns: {', '.join(self.columns) or 'none'}", rows, "", *cost]


def plan_of(job: Job, catalogue: Catalogue) -> JobPlan:
    """Return what can be said of a job before it is submitted; raises as `AsyncClient.plan`."""
    from analyses.registry import analysis_of

    analysis = analysis_of(job)
    plan = analysis.plan(job.model_copy(update={"anyway": True}), catalogue.schemas_of(job))
    privacy = None if plan.is_exact else plan.privacy_report()
    parts = analysis.survival(job), plan.column_names, whose_rows(job, joins=analysis.joins), privacy
    return JobPlan(*parts, analysis.forecast(plan), distance_of(plan), job.security)
