"""The description of an analysis that the rest of the code uses: one `ANALYSIS` value in each protocol module."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from pydantic import ValidationError

from analyses.drawing.chart import Picture
from analyses.job.forecast import Forecast, Signal
from analyses.job.hopeless import check_hope, why_hopeless
from analyses.job.job import Job, JobError, MatchingKind, PublicModel, explain
from analyses.job.plan import Plan, check_unit, matches_in_secret
from analyses.job.schema import MAX_ROWS, BlockSchema, LocalReport, Table
from analyses.job.survival import Survival
from analyses.job.text import lines_of_result
from mpc.protocol.session import Session


def _no_signal(plan: Any) -> None:
    """Say nothing about a plan."""


def _no_forecast(plan: Any) -> Forecast:
    return Forecast(not_forecast=("This analysis does not forecast the errors of its results.",))


def _of_own_table(report: LocalReport, job: Job, table: Table) -> LocalReport:
    """Return a report that counts the rows of an owner's table, and those that matched where it learns how many."""
    if job.matching is None:
        return report
    is_told = job.matching.kind == "revealed"
    return replace(report, n_rows=table.n_rows, n_matched=report.n_rows if is_told else None)


@dataclass(frozen=True)
class Analysis:
    """An analysis, or several that differ only in their name.

    Attributes:
        names: by which jobs ask for it. The example of each is the file of that name in `examples/`.
        parameters: what a job's parameters must be, apart from what follows from owners' tables.
        plan: fixes everything public from the job and the public columns of all members. Called through this value, it
            refuses with `JobError` to protect records where the job asks that persons are protected, and a job whose
            answer could not be seen in the noise, unless it says `anyway`.
        party: runs a party's part; its table is None where it only computes. Where rows are matched, what it reports
            as the number of rows is of those that matched; called through this value, it says both.
        coordinator: runs the coordinator's part and returns the result, JSON-able.
        survival: returns how many parties may drop out or send corrupted shares; it depends on the job alone.
        page: the page of the documentation, below `docs/`.
        demo: the command of `moiety demo` that shows it.
        forecast: returns the errors that are expected of a plan's result, from public facts alone. Called through this
            value, it says besides whether the job is hopeless.
        signal: returns the noise of a plan beside the largest possible answer; None where the analysis cannot tell, or
            adds no noise. It takes microseconds, as each plan is asked.
        reference: computes the same in plain NumPy where somebody holds all tables: no privacy.
        lines: the result as text for people, by default field by field.
        picture: what is to be seen of a result, by default nothing.
        matching: the kinds of matching rows that it can go by (`analyses.job.job.Matching`); a job that asks for
            another one is refused.
        open_methods: values of the parameter `method` with which owners or the coordinator handle rows one by one, and
            not under shares; a job that matches rows in secret cannot use them.
        may_be_exact: whether a job may leave out its privacy target and get an answer without noise.
        own_rows: whether each party's rows stay at that party, which adds up something over them: nobody else sees how
            many they are, so a job may name filters.
    """

    names: tuple[str, ...]
    parameters: type[PublicModel]
    plan: Callable[[Job, Sequence[BlockSchema]], Plan]
    party: Callable[[Session, Any, Table | None], Awaitable[LocalReport]]
    coordinator: Callable[[Session, Any], Awaitable[dict[str, Any]]]
    survival: Callable[[Job], Survival]
    page: str
    demo: str
    forecast: Callable[[Any], Forecast] = _no_forecast
    signal: Callable[[Any], Signal | None] = _no_signal
    reference: Callable[..., Any] | None = None
    lines: Callable[[dict[str, Any]], list[str]] = lines_of_result
    picture: Callable[[dict[str, Any]], Picture] | None = None
    may_be_exact: bool = False
    matching: tuple[MatchingKind, ...] = ()
    open_methods: tuple[str, ...] = ()
    own_rows: bool = False

    def __post_init__(self) -> None:
        """Let no plan leave this value that does not protect whom its job asks to protect, or that is hopeless."""
        own, own_party, own_forecast = self.plan, self.party, self.forecast

        @wraps(own)
        def checked(job: Job, schemas: Sequence[BlockSchema]) -> Plan:
            self.check_matching(job)
            self.check_filters(job)
            made = own(job, schemas)
            check_unit(job, made)
            check_hope(own, self.signal, job, schemas, made)
            return made

        @wraps(own_forecast)
        def forecast(plan: Plan) -> Forecast:
            hopeless = why_hopeless(own, self.signal, plan.job, plan.schemas, plan)
            return replace(own_forecast(plan), hopeless=hopeless)

        @wraps(own_party)
        async def party(session: Session, plan: Plan, table: Table | None) -> LocalReport:
            report = await own_party(session, plan, table)
            return report if table is None or report.n_matched is not None else _of_own_table(report, plan.job, table)

        object.__setattr__(self, "plan", checked)
        object.__setattr__(self, "party", party)
        object.__setattr__(self, "forecast", forecast)

    def check_filters(self, job: Job) -> None:
        """Refuse a filter where anybody could see how many rows pass it, or which.

        Raises:
            JobError: says what would hide it.
        """
        named = [one for one in job.inputs if one.where is not None]
        if not named:
            return
        if job.target is None:
            raise JobError("inputs.where: an exact answer would show what a filter leaves, so it needs `privacy`")
        if not self.own_rows and (job.matching is None or job.matching.kind != "secret"):
            raise JobError(
                f"inputs.where: {job.analysis} is about rows that all owners have, and a filter of one owner's rows "
                'would show to the others which rows pass it; match the rows in secret (`matching.kind = "secret"`)'
            )

    def check_matching(self, job: Job) -> None:
        """Refuse a job that asks for rows to be matched in a way that the analysis cannot go by.

        Raises:
            JobError: names the analysis and the kind.
        """
        if job.matching is not None and job.matching.kind not in self.matching:
            can = f"; it can in the way {', '.join(self.matching)}" if self.matching else ""
            raise JobError(f"matching: {job.analysis} cannot match rows in the way {job.matching.kind!r}{can}")
        method = job.parameters.get("method")
        if matches_in_secret(job) and method in self.open_methods:
            raise JobError(
                f"matching.kind: method {method!r} of {job.analysis} needs owners that know which of their rows match; "
                "with kind 'secret' nobody does"
            )

    @property
    def examples(self) -> tuple[str, ...]:
        """The files in `examples/` with a job of each name."""
        return tuple(f"{name}.toml" for name in self.names)

    def check_parameters(self, job: Job) -> None:
        """Refuse parameters that are invalid for any tables: unknown ones and ones that are out of range.

        Raises:
            JobError: names each field.
        """
        unstated = {"max_rows": MAX_ROWS} if "max_rows" in self.parameters.model_fields else {}
        try:
            self.parameters.model_validate(unstated | job.parameters)
        except ValidationError as error:
            raise JobError("\n".join(f"parameters.{line}" for line in explain(error).splitlines())) from error
