"""Admission of a planned job: the policy, the owner's approval if needed, and the reservation of budget."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from analyses.job.job import Job, JobInput
from analyses.job.listing import Listing
from analyses.job.plan import Plan
from analyses.job.schema import BlockSchema, Table
from analyses.registry import analysis_of
from dp.cost.job_cost import CostError, JobCost
from dp.cost.views import VIEWS
from ledger.balance import Quote
from ledger.books import ChargeError
from ledger.entry import LedgerError
from ledger.ledger import Ledger
from ledger.spending import Cover, Spending, cover_of, spending_of_one
from mpc.protocol.concurrency import run_to_its_end
from mpc.protocol.session import COORDINATOR
from party.catalogue import listing_of
from party.config import PartyConfig
from party.consent import PRODUCTS, ConsentBox, OwnerRefusalError, OwnerSilentError
from party.consent import RefusalError as RefusalError
from party.limits import DeadlineRefusalError, check_memory
from party.outcome.receipts import Admitted
from party.policy import Answer, Decision, Request
from party.tables.config import TableConfig
from service.codes.coded_text import code_of, coded, told
from service.watch.meter import Meter
from service.watch.notice import tell_owner

log = structlog.get_logger()


class PolicyRefusalError(RefusalError):
    """The owner's policy rules the job out."""

    code = "job-refused-policy"


class DeltaRefusalError(RefusalError):
    """The job's delta is too large for a table's owner."""

    code = "delta-too-large"


@dataclass(frozen=True)
class Applicant:
    """A job and the analyst who submitted it.

    Attributes:
        job_id: id of the job.
        analyst: who submitted it, as the coordinator says.
        job: what is asked for.
        brought: the columns of this party's table that it is about; None where the party only computes.
        table: how the owner declared that table when the job was proposed.
    """

    job_id: str
    analyst: str
    job: Job
    brought: JobInput | None
    table: TableConfig | None

    @property
    def account(self) -> str:
        """What the ledger calls the budget that the job is charged to."""
        assert self.table is not None, "a party that only computes is charged nothing"
        return self.table.account


class Admission:
    """Admits or refuses jobs for one party, and charges them to its ledger.

    Args:
        config: the owner's file.
        ledger: what was and may be spent.
        consent: how the owner is asked.
        clock: Unix time, shown to the owner.
        meter: metrics of the service.
    """

    def __init__(
        self,
        config: PartyConfig,
        ledger: Ledger,
        consent: ConsentBox,
        *,
        clock: Callable[[], float] = time.time,
        meter: Meter | None = None,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._consent = consent
        self._clock = clock
        self._timed = (meter or Meter()).timed
        self._telling: set[asyncio.Task[None]] = set()
        self._exact: dict[str, str] = {}  # job that may open an exact result, to who agreed
        self.admitted: dict[str, Admitted] = {}  # by job, until it has ended

    def use(self, config: PartyConfig) -> None:
        """Decide by another configuration from now on: also about jobs that are being decided."""
        self._config = config

    def listing(self, analyst: str) -> Listing:
        """Return what an analyst is told of our tables; see `party.catalogue`."""
        return listing_of(self._config, self._ledger, analyst)

    def check_proposal(self, job: Job, analyst: str, schema: BlockSchema) -> None:
        """Refuse jobs that violate the limits, before they are planned.

        If the deadline could be shorter than the time to read a table, a failure would reveal that time. Such jobs cost
        nothing, so an analyst could find it by bisection.

        Raises:
            RefusalError: names the rules.
        """
        least_s, me = self._config.least_deadline_s, self._config.name
        if job.deadline_s < least_s and any(brought.party == me for brought in job.inputs):
            raise DeadlineRefusalError(
                f"deadline_s: {job.deadline_s:g} is below {least_s:g}, the shortest deadline that {me} accepts"
            )
        decision = self._config.policy.decide(self._request(job, analyst, schema, (COORDINATOR,)))
        if decision.answer is Answer.REFUSE:
            raise PolicyRefusalError(_policy_text(decision))

    async def admit(self, applicant: Applicant, plan: Plan) -> AsyncGenerator[str, None]:
        """Admit or refuse a planned job. If this succeeds, budget is reserved; nothing has been opened by then.

        Yields:
            Public text, once, when the owner is asked.

        Raises:
            RefusalError: with the reason.
        """
        schema = plan.schema_of(self._number_in(applicant.job))
        if plan.is_exact != (applicant.job.target is None):
            raise RefusalError("privacy: the plan must add noise if and only if the job has a privacy target")
        check_memory(plan, self._config)
        try:
            cost = None if applicant.brought is None or plan.is_exact else _cost_of(plan)
            quote = None if cost is None else await self._quote(applicant, plan, cost)
            epsilon: float | None = None
            of_analyst: Callable[[float], Cover] | None = None
            if quote is not None:
                epsilon, of_analyst = quote.job_alone, quote.analyst_cover
            elif not plan.is_exact:
                alone = await asyncio.to_thread(self._spending_without_budget, applicant, plan)
                epsilon = alone.epsilon(applicant.job.privacy.delta)
                of_analyst = partial(cover_of, alone, delta=applicant.job.privacy.delta)
            request = self._request(
                applicant.job,
                applicant.analyst,
                schema,
                plan.receivers,
                epsilon=epsilon,
                analyst_cover=of_analyst,
                plan=plan,
            )
            decision = self._config.policy.decide(request)
            if decision.answer is Answer.REFUSE:
                raise PolicyRefusalError(_policy_text(decision))
            consent = "policy"
            if decision.answer is Answer.ASK:
                if quote is not None:
                    quote.check_covered()  # the owner is not asked about jobs that the ledger would refuse
                deadline_s = self._config.policy.approval_deadline_s
                yield f"{self._config.name} waits for its owner's approval, for at most {deadline_s:g} s"
                await self._ask(applicant, plan, schema, quote, decision)
                consent = "owner"
            if applicant.brought is not None and plan.is_exact:
                await asyncio.to_thread(self._ledger.check_unused, applicant.job_id)
                self._exact[applicant.job_id] = consent
            elif quote is not None and cost is not None:
                await run_to_its_end(  # whoever cancels the job releases its reservation
                    self._timed("reserve", self._ledger.reserve),
                    applicant.job_id,
                    dataset=quote.balance.dataset,
                    analyst=applicant.analyst,
                    analysis=applicant.job.analysis,
                    consent=consent,
                    cost=cost,
                    most_epsilons_of_analyst=decision.max_epsilons_per_analyst,
                )
            self.admitted[applicant.job_id] = Admitted(consent, quote)
        except ChargeError as error:
            raise RefusalError(told(error)) from error
        except LedgerError as error:
            raise RefusalError(self.explain(error)) from error

    def commit(self, applicant: Applicant) -> None:
        """Commit the cost of an admitted job; an exact result, which has no finite cost, is recorded.

        A party that only computes has no cost: its peers charge their own.

        Raises:
            ChargeError: it holds no reservation, or was not admitted; the text is public.
            LedgerError: it cannot be written.
        """
        if applicant.brought is None:
            return
        if applicant.job.target is not None:
            self._timed("commit", self._ledger.commit)(applicant.job_id)
            self.admitted.get(applicant.job_id, Admitted("", None)).is_committed = True  # if it has not ended since
            return
        consent = self._exact.pop(applicant.job_id, None)
        if consent is None:
            raise ChargeError(
                f"job {applicant.job_id} was not permitted to open an exact result, so nothing may be opened"
            )
        self._ledger.record_exact(
            applicant.job_id,
            dataset=applicant.account,
            analyst=applicant.analyst,
            analysis=applicant.job.analysis,
            consent=consent,
        )

    async def release(self, job_id: str, reason: str) -> None:
        """Release the reservation of a job that has ended, unless it was committed.

        A failure is only logged: a reservation that is not released now is released at the next start.
        """
        self._exact.pop(job_id, None)
        if (note := self.admitted.pop(job_id, None)) is not None and note.is_committed:
            return
        try:
            await asyncio.to_thread(self._timed("release", self._ledger.release), job_id, reason)
        except LedgerError as error:
            log.error("reservation kept", job=job_id, reason=str(error))

    def warn_of_rows(self, account: str, brought: JobInput, table: Table) -> None:
        """Warn the owner in the log if the budget's delta is not below 1 / (number of rows) of a table that was read.

        The job goes on: if it did not, others would learn something of the number of rows. Only where no rows are
        declared can this happen; else `admit` has compared delta with the most that there can be.
        """
        balance = self._ledger.balance(account) if table.schema.rows is None else None
        if balance is not None and balance.budget.delta >= 1 / max(1, table.n_rows):
            log.warning("the budget's delta is not below 1 / (rows of the table): set another", table=brought.table)

    def explain(self, error: LedgerError) -> str:
        """Return the public text for a failure of the ledger; the owner finds the details in the log."""
        log.error("ledger failed", reason=str(error))
        what = f"the privacy ledger of {self._config.name} cannot be used; its log has the details"
        return coded(what, code=code_of(error))

    async def _quote(self, applicant: Applicant, plan: Plan, cost: JobCost) -> Quote:
        brought, own = applicant.brought, applicant.table
        assert brought is not None, "a party without a table is charged nothing"
        if own is not None and (problem := own.problem_with_unit(cost.unit)):
            raise RefusalError(f"table {brought.table!r} of {self._config.name}: the protected unit {problem}")
        quote = await asyncio.to_thread(self._ledger.quote, applicant.account, applicant.analyst, cost)
        # Both bounds come from the owner, not from the table, which nobody has read yet. Where no rows are declared,
        # `warn_of_rows` tells the owner what it finds, and nobody else.
        allowed, declared = quote.balance.budget.delta, plan.schema_of(self._number_in(applicant.job)).rows
        which = f"table {brought.table!r} of {self._config.name}"
        if declared is not None and allowed >= 1 / declared[1]:
            raise DeltaRefusalError(
                f"delta is too large for {which}: the delta of its budget is {allowed!r}, and must be below "
                f"1 / {declared[1]} (the largest number of rows that it may have); its owner must set another budget"
            )
        if (asked := applicant.job.privacy.delta) > allowed:
            raise DeltaRefusalError(f"delta is too large for {which}: it may be at most {allowed!r}, and is {asked!r}")
        return quote

    def _spending_without_budget(self, applicant: Applicant, plan: Plan) -> Spending:
        """Return the cost of a noisy job for which this party keeps no budget.

        A party that only computes has no table, no budget and no period; its rules judge each job alone, at the job's
        delta. The analyst chooses that delta, and a larger one makes epsilon smaller, so it must be below
        1 / (most rows) of every table of the job, as far as owners declare them: a job that all owners can admit meets
        that.

        Raises:
            RefusalError: delta is too large.
            ChargeError: the plan states no cost, or one that no ledger could charge.
        """
        delta = applicant.job.privacy.delta
        for schema in plan.schemas:
            if schema.rows is not None and delta >= 1 / schema.rows[1]:
                raise DeltaRefusalError(
                    f"delta is too large for the table of {schema.party}: it must be below 1 / {schema.rows[1]} (the "
                    f"largest number of rows that the table may have), and is {delta!r}"
                )
        return spending_of_one(_cost_of(plan))

    async def _ask(
        self, applicant: Applicant, plan: Plan, schema: BlockSchema, quote: Quote | None, decision: Decision
    ) -> None:
        deadline_s = self._config.policy.approval_deadline_s
        question = await asyncio.to_thread(self._question, applicant, plan, schema, quote, decision)
        question |= {"asked_at_s": self._clock(), "deadline_s": deadline_s}
        log.warning("job waits for approval", job=applicant.job_id, analyst=applicant.analyst, see="moiety party jobs")
        if self._config.notice is not None:
            telling = asyncio.create_task(tell_owner(self._config.notice, self._config.name, question))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)
        try:
            async with asyncio.timeout(deadline_s):
                refusal = await self._consent.ask(applicant.job_id, question)
        except TimeoutError as error:
            raise OwnerSilentError(f"the owner did not approve the job within {deadline_s:g} s") from error
        if refusal is not None:
            raise OwnerRefusalError(f"the owner refused the job: {refusal}")

    def _question(
        self, applicant: Applicant, plan: Plan, schema: BlockSchema, quote: Quote | None, decision: Decision
    ) -> dict[str, Any]:
        """Return the facts for the owner's decision.

        Analyst, job, columns, both epsilons, the remaining budget, and the forecast of the result's errors.
        """
        job, report, brought = applicant.job, plan.privacy_report(), applicant.brought
        return {
            "job_id": applicant.job_id,
            "analyst": applicant.analyst,
            "analysis": job.analysis,
            "title": job.title,
            "parameters": dict(job.parameters),
            "anyway": job.anyway,
            "matching": report.get("matching"),
            "order": job.order,
            "members": list(job.members),
            "colluding": plan.withstands,
            "helpers": list(job.helpers),
            "products": PRODUCTS if plan.has_intermediate_products else None,
            "security": job.security,
            "table": None if brought is None else brought.table,
            "columns": [column.name for column in schema.columns],
            "where": schema.where,
            "delta": None if job.target is None else job.target.delta,
            "epsilon": None if plan.is_exact else {view: report["views"][view]["epsilon"] for view in VIEWS},
            "budget": None
            if quote is None
            else quote.balance.as_dict() | {"held_after": quote.held_after, "part_after": quote.after.used},
            "forecast": analysis_of(job).forecast(plan).as_dict(),
            "why_asked": list(decision.objections),
        }

    def _number_in(self, job: Job) -> int:
        return job.members.index(self._config.name) + 1

    def _request(
        self,
        job: Job,
        analyst: str,
        schema: BlockSchema,
        receivers: tuple[int, ...],
        *,
        epsilon: float | None = None,
        analyst_cover: Callable[[float], Cover] | None = None,
        plan: Plan | None = None,
    ) -> Request:
        names: Mapping[int, str] = dict(enumerate(job.members, start=1)) | {COORDINATOR: self._config.coordinator.name}
        brought = next((i for i in job.inputs if i.party == self._config.name), None)
        where, table = (None, "") if brought is None else (brought.where, brought.table)
        sources = self._config.sources_of(table, schema.columns)
        return Request(
            analyst=analyst,
            analysis=job.analysis,
            table=table,
            where=where,
            where_columns=self._config.columns_of_filter(table, where or ""),
            stated_epsilon=None if plan is None or job.target is None else job.target.epsilon,
            columns=tuple(sources),
            n_compute_parties=len(job.compute_parties),
            colluding=job.t if plan is None else plan.withstands,
            receivers=(analyst, *(names[number] for number in receivers)),
            sources=sources,
            is_exact=job.target is None,
            matching=None if job.matching is None else job.matching.kind,
            helpers=tuple(name for name in job.helpers if name != self._config.name),
            has_intermediate_products=None if plan is None else lambda: plan.has_intermediate_products,
            security=job.security,
            program=None if plan is None else analysis_of(job).program(plan),
            epsilon=epsilon,
            analyst_cover=analyst_cover,
        )


def _cost_of(plan: Plan) -> JobCost:
    try:
        return plan.cost()
    except CostError as error:
        raise ChargeError(str(error)) from error


def _policy_text(decision: Decision) -> str:
    return "by its policy: " + "; ".join(decision.objections)
