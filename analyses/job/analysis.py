"""The description of an analysis that the rest of the code uses: one `ANALYSIS` value in each protocol module."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from pydantic import ValidationError

from analyses.job.declared_rows import declared_rows
from analyses.job.distance import Work
from analyses.job.forecast import Forecast, Signal
from analyses.job.infeasible import check_hope, why_infeasible
from analyses.job.job import Job, JobError, MatchingKind, PublicModel, parameters_error
from analyses.job.plan import Plan, check_unit, matches_in_secret
from analyses.job.schema import MAX_ROWS, BlockSchema, LocalReport, Table
from analyses.job.survival import Survival
from mpc.protocol.session import Session


def _no_signal(plan: Any) -> None:
    """Say nothing about a plan."""


def _no_program(plan: Any) -> None:
    """Say that a plan runs no program of the analyst's own."""


def _no_work(plan: Any, n_rows: int, measured: bool) -> Work | None:
    return None


def _no_forecast(plan: Any) -> Forecast:
    return Forecast(not_forecast=("This analysis does not forecast the errors of its results.",))


def _of_own_table(report: LocalReport, job: Job, table: Table) -> LocalReport:
    """Return a report that counts the rows of an owner's table, and those that matched where it learns how many."""
    if job.matching is None:
        return report
    is_told = job.matching.kind == "revealed"
    return replace(report, n_rows=table.n_rows, n_matched=report.n_rows if is_told else None)


def by_plan(ways: Mapping[type[Plan], Callable[..., Any]]) -> Callable[..., Any]:
    """Return one function of an analysis whose jobs have plans of several classes: that of the plan it is called with.

    Args:
        ways: class of plans to what is done with them; all take the same arguments, one of which is the plan.
    """

    @wraps(next(iter(ways.values())))
    def chosen(*given: Any) -> Any:
        return ways[next(type(one) for one in given if isinstance(one, Plan))](*given)

    return chosen


@dataclass(frozen=True)
class Analysis:
    """An analysis, or several that differ only in their name.

    What results look like is not said here: `results/registry.py` finds that by the name of the analysis.

    Attributes:
        names: names by which jobs ask for it. The example of each is the file of that name in `examples/`.
        parameters: what a job's parameters must be, apart from what follows from owners' tables.
        own_plan: fixes everything public from the job and the public columns of all members. Others call `plan`.
        own_party: runs a party's part; its table is None where it only computes. Where rows are matched, what it
            reports as the number of rows is of those that matched. Others call `party`.
        coordinator: runs the coordinator's part and returns the result, JSON-able.
        survival: returns how many parties may drop out or send corrupted shares; it depends on the job alone.
        page: the page of the documentation, below `docs/`.
        demo: the command of `moiety demo` that shows it.
        own_forecast: returns the errors that are expected of a plan's result, from public facts alone. Others call
            `forecast`.
        own_work: returns what a plan takes of the machines of its services, given the rows of the joint table and
            whether this machine is to be measured; None where it is not said. Others call `work`.
        signal: returns the noise of a plan beside the largest possible answer; None where the analysis cannot tell, or
            adds no noise. It takes microseconds, as each plan is asked.
        reference: computes the same in plain NumPy where somebody holds all tables: no privacy.
        matching: the kinds of matching rows that it can go by (`analyses.job.job.Matching`); a job that asks for
            another one is refused.
        open_methods: values of the parameter `method` with which owners or the coordinator handle rows one by one, and
            not under shares; a job that matches rows in secret cannot use them.
        may_be_exact: whether a job may leave out its privacy target and get an answer without noise.
        own_rows: whether each party's rows stay at that party, which adds up something over them: nobody else sees how
            many they are, so a job may name filters.
        synonyms: names of parameters that people bring from elsewhere, to their names here.
        fewest_parties: compute parties of a job: 3 where values are multiplied under shares, 2 where each party only
            adds, or sends, what noise has made of its own rows.
        program: returns the digest of the analyst's own program that a plan runs, in hexadecimal; None where it runs
            none. Owners' policies name it.
        joins: whether row i of all tables is about the same person; otherwise each row is of one party alone.
        apart: names of parameters; a job that gives one of them joins no rows, though others do.
    """

    names: tuple[str, ...]
    parameters: type[PublicModel]
    own_plan: Callable[[Job, Sequence[BlockSchema]], Plan]
    own_party: Callable[[Session, Any, Table | None], Awaitable[LocalReport]]
    coordinator: Callable[[Session, Any], Awaitable[dict[str, Any]]]
    survival: Callable[[Job], Survival]
    page: str
    demo: str
    own_forecast: Callable[[Any], Forecast] = _no_forecast
    own_work: Callable[[Any, int, bool], Work | None] = _no_work
    signal: Callable[[Any], Signal | None] = _no_signal
    reference: Callable[..., Any] | None = None
    may_be_exact: bool = False
    matching: tuple[MatchingKind, ...] = ()
    open_methods: tuple[str, ...] = ()
    own_rows: bool = False
    synonyms: Mapping[str, str] = field(default_factory=dict)
    fewest_parties: int = 3
    program: Callable[[Any], str | None] = _no_program
    joins: bool = True
    apart: tuple[str, ...] = ()

    def plan(self, job: Job, schemas: Sequence[BlockSchema]) -> Plan:
        """Return the plan of a job: everything public about it.

        Raises:
            JobError: the job is not one of this analysis, its plan protects records where the job asks that persons
                are protected, it does not prove what the job's `security` asks for, or its answer could not be seen in
                the noise and the job does not say `anyway`.
        """
        self.check_matching(job)
        self.check_filters(job)
        made = self.own_plan(job, schemas)
        check_unit(job, made)
        check_security(job, made)
        check_hope(self.own_plan, self.signal, job, schemas, made)
        return made

    async def party(self, session: Session, plan: Plan, table: Table | None) -> LocalReport:
        """Run a party's part of a job, and report the rows of its table besides those that matched."""
        report = await self.own_party(session, plan, table)
        return report if table is None or report.n_matched is not None else _of_own_table(report, plan.job, table)

    def forecast(self, plan: Plan) -> Forecast:
        """Return the errors that are expected of a plan's result, and whether the job is infeasible."""
        why = why_infeasible(self.own_plan, self.signal, plan.job, plan.schemas, plan)
        return replace(self.own_forecast(plan), infeasible=why)

    def work(self, plan: Plan, *, measured: bool = False) -> Work | None:
        """Return what a job takes with the most rows that are declared; None where the analysis does not say it.

        Args:
            plan: plan of the job.
            measured: whether this machine is measured, for a second or two, to say processor time.
        """
        if self.own_work is _no_work:
            return None
        return self.own_work(plan, max(1, declared_rows(plan.job, plan.schemas).most), measured)

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
        if job.order is not None and not self.joins_rows(job):
            raise JobError(f"order: {job.analysis} joins no rows, so their order does not matter; leave `order` away")
        if job.matching is not None and job.matching.kind not in self.matching:
            can = f"; it can in the way {', '.join(self.matching)}" if self.matching else ""
            raise JobError(f"matching: {job.analysis} cannot match rows in the way {job.matching.kind!r}{can}")
        method = job.parameters.get("method")
        if matches_in_secret(job) and method in self.open_methods:
            raise JobError(
                f"matching.kind: method {method!r} of {job.analysis} needs owners that know which of their rows match; "
                "with kind 'secret' nobody does"
            )

    def joins_rows(self, job: Job) -> bool:
        """Return whether row i of all tables is about the same person in a job."""
        return self.joins and all(job.parameters.get(name) is None for name in self.apart)

    def renamed(self, job: Job) -> tuple[Job, list[str]]:
        """Return a job whose parameters have their names here, and a note on each that had another one.

        Raises:
            JobError: a parameter is given under both names.
        """
        found, notes = dict(job.parameters), []
        for name, here in self.synonyms.items():
            if name not in found:
                continue
            if here in found:
                raise JobError(f"parameters.{name}: the same as `{here}`, which is given too")
            found[here] = found.pop(name)
            notes.append(f"parameters.{name}: called `{here}` in {job.analysis}")
        return (job.model_copy(update={"parameters": found}) if notes else job), notes

    def check_parameters(self, job: Job) -> None:
        """Refuse parameters that are invalid for any tables: unknown ones and ones that are out of range.

        Raises:
            JobError: names each field.
        """
        unstated = {"max_rows": MAX_ROWS} if "max_rows" in self.parameters.model_fields else {}
        try:
            self.parameters.model_validate(unstated | job.parameters)
        except ValidationError as error:
            raise parameters_error(error, self.parameters) from None


def check_security(job: Job, plan: Plan) -> None:
    """Refuse a job that is to hold against members that deviate, if its plan does not prove all that it takes.

    Every plan passes here, as with `check_unit`: what is not proven never runs under that name.

    Raises:
        JobError: names the analysis and what is not proven.
    """
    if not job.is_malicious:
        return
    why = None
    if matches_in_secret(job):
        why = "rows that are matched in secret are known to nobody, so nobody can prove their bounds"
    elif not plan.norm_bounds:
        why = f"{job.analysis} does not prove, in this form, that owners' values keep their bounds"
    elif plan.has_intermediate_products and not plan.proves_products:
        why = f"{job.analysis} multiplies products of values once more, which is not proven yet"
    if why is not None:
        raise JobError(f"security: {why}; leave `security` away if all members are trusted to follow the protocol")
