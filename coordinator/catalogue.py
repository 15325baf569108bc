"""The catalogue: the coordinator asks every party of its roster what an analyst may use, and hands the answers on."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from analyses.job.job import JobError
from analyses.job.listing import Listing
from coordinator.proposal import REACH_S, RosterParty
from service.codes.coded_text import told
from service.errors import RemoteFailureError, ServiceError
from transport.calls.way import wait_until_reachable

DESCRIBE_S = 20.0


async def listings(parties: Iterable[RosterParty], analyst: str) -> AsyncIterator[tuple[str, str, str]]:
    """Yield of each party its name and either its listing, as JSON, or why there is none; all are asked at once.

    Args:
        parties: parties of the roster.
        analyst: who asks.
    """
    asked = [(party.identity.name, asyncio.create_task(_listing_of(party, analyst))) for party in parties]
    try:
        for name, answer in asked:
            try:
                yield name, await answer, ""
            except ServiceError as error:
                yield name, "", told(error)
    finally:
        for _, answer in asked:
            answer.cancel()


async def _listing_of(party: RosterParty, analyst: str) -> str:
    name = party.identity.name
    await wait_until_reachable(party.channel, peer=name, address=party.address, deadline_s=REACH_S)
    text = await party.client.describe(analyst, timeout_s=DESCRIBE_S)
    try:
        listing = Listing.from_json(text)
    except JobError as error:
        raise RemoteFailureError(f"the tables that party {name} lists cannot be read") from error
    if listing.party != name or any(table.block.party != name for table in listing.tables):
        raise RemoteFailureError(f"party {name} lists tables of another party")
    return listing.canonical_json()
