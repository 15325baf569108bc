"""The last words of the coordinator to the parties of a job: that it has failed, or that its result is stored."""

import asyncio
from collections.abc import Iterable

import structlog

from coordinator.proposal import RosterParty
from service.errors import ServiceError

CANCEL_S = 3.0
"""Seconds to try to notify a party that a job has ended."""

_log = structlog.get_logger(__name__)


async def report_end(job_id: str, parties: Iterable[RosterParty], reason: str) -> None:
    """Tell all parties why a job has ended. Without a reason its result is stored, and they may forget what they keep.

    A party that does not hear it forgets the job after a while.
    """
    await asyncio.gather(*(_tell(job_id, party, reason) for party in parties))


async def _tell(job_id: str, party: RosterParty, reason: str) -> None:
    try:
        await party.client.cancel(job_id, reason, timeout_s=CANCEL_S)
    except ServiceError as error:
        _log.warning("party did not hear of the end", job=job_id, party=party.identity.name, cause=str(error))
