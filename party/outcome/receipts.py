"""The receipts that a party signs of jobs whose part here is done. They tell no more than listings and plans do.

A receipt is public to the analyst. It holds nothing of rows or values, and of the budget only what a listing shows: how
much is left follows from the jobs of all analysts, so it is stated where the owner shows it (`show_budget`) only.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analyses.job.plan import Plan
from ledger.balance import Quote
from ledger.books import JobState
from ledger.ledger import Ledger
from party.tables.config import TableConfig
from service.errors import InvalidRequestError, WrongStateError
from service.tls import Credentials
from service.trust.protocol import PROTOCOL, own_version
from service.trust.receipts import Receipt, statement_of
from service.trust.statements import Signed, sign

DIGEST_BYTES = 32


@dataclass
class Admitted:
    """What is kept of an admitted job for its receipt.

    Attributes:
        consent: who admitted it, `policy` or `owner`.
        quote: what it was to cost when it was admitted; None where nothing is charged.
        result_digest: digest of the result that the coordinator told first; None before.
        is_committed: whether its cost is committed, so that no reservation is left to be released.
    """

    consent: str
    quote: Quote | None
    result_digest: bytes | None = None
    is_committed: bool = False


@dataclass(frozen=True)
class FinishedJob:
    """A job whose part here is done.

    Attributes:
        job_id: identifier of the job.
        analyst: who submitted it, as the coordinator says.
        table: our table in it, as its owner declared it; None where we only compute.
        plan: plan of the job.
    """

    job_id: str
    analyst: str
    table: TableConfig | None
    plan: Plan


class Receipts:
    """Signs receipts for one party.

    Args:
        coordinator: name of the coordinator.
        finished: returns a job whose part here is done, once it is (`PartyJobs.finished`).
        admitted: what was kept of admitted jobs, by job.
        ledger: ledger that jobs are charged to.
        credentials: returns the credentials in use.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        coordinator: str,
        finished: Callable[[str], Awaitable[FinishedJob]],
        admitted: Mapping[str, Admitted],
        ledger: Ledger,
        credentials: Callable[[], Credentials],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._coordinator = coordinator
        self._finished = finished
        self._admitted = admitted
        self._ledger = ledger
        self._credentials = credentials
        self._clock = clock

    async def sign(self, job_id: str, result_digest: bytes) -> tuple[str, Signed]:
        """Return the receipt of a job as canonical JSON, and its signature; waits until our part is done.

        Args:
            job_id: identifier of the job.
            result_digest: SHA-256 of the result, as the coordinator says.

        Raises:
            InvalidRequestError: that is no digest.
            WrongStateError: the job did not run to its end here, its cost is not committed, or the coordinator has told
                another digest before.
            LedgerError: the ledger cannot be read.
        """
        if len(result_digest) != DIGEST_BYTES:
            raise InvalidRequestError(f"the digest of a result has {DIGEST_BYTES} bytes")
        job = await self._finished(job_id)
        note = self._admitted.get(job_id)
        if note is None:
            raise WrongStateError(f"job {job_id} has ended here")
        if (note.result_digest or result_digest) != result_digest:
            raise WrongStateError(f"another result of job {job_id} was told before, and only one is signed")
        note.result_digest = result_digest
        credentials = self._credentials()
        text = Receipt(
            job_id=job_id,
            party=credentials.identity.uri,
            coordinator=self._coordinator,
            analyst=job.analyst,
            plan_digest=job.plan.digest().hex(),
            result_digest=result_digest.hex(),
            consent=note.consent,
            charge=self._charge_of(job),
            budget=_shown(job, note.quote),
            security=job.plan.job.security,
            moiety=own_version(),
            protocol=PROTOCOL,
            signed_at_s=int(self._clock()),
        ).canonical_json()
        return text, sign(credentials, statement_of(text))

    def _charge_of(self, job: FinishedJob) -> str:
        if job.table is None:
            return "none"
        if job.plan.is_exact:
            return "exact"  # recorded before anything was opened, or the job would not be done
        charge = self._ledger.charge(job.job_id)
        if charge is None or charge.state is not JobState.COMMITTED:
            raise WrongStateError(f"the cost of job {job.job_id} is not committed here")
        return "committed"


def _shown(job: FinishedJob, quote: Quote | None) -> dict[str, Any] | None:
    """Return what a receipt says of a budget; None where its owner shows nothing of it."""
    if quote is None or job.table is None or not job.table.show_budget:
        return None
    budget = quote.balance.budget
    return {
        "unit": budget.unit,
        "period": budget.period,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "before": max(0.0, 1 - quote.balance.held_of.used),
        "after": max(0.0, 1 - quote.after.used),
    }
