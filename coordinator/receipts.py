"""The receipts of a job's parties, which its result carries: asked for once the result is there, never checked here.

Whoever reads a result checks them (`verify`), because a coordinator's word about them would be worth nothing. A party
that has dropped out, does not answer in time or refuses leaves no receipt: the result is paid for, and does not wait.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from coordinator.evidence import Evidence
from coordinator.proposal import RosterParty
from mpc.public_text import check_public
from service.errors import ServiceError
from service.trust.receipts import FIELD, SignedReceipt, canonical_json, digest_of_result

RECEIPT_S = 10.0
"""Seconds to wait for the receipts of all parties."""

MAX_RECEIPT_BYTES = 8 << 10

_log = structlog.get_logger(__name__)


async def with_receipts(
    job_id: str,
    result: Mapping[str, Any],
    parties: Iterable[RosterParty],
    evidence: Evidence,
) -> str:
    """Return a result as canonical JSON, with the receipts of the parties that gave one, in the order of the parties.

    Where the job is stopped meanwhile, the result is returned without receipts, because it is paid for. Without any,
    it has no such field.

    Args:
        job_id: identifier of the job.
        result: fields of the result.
        parties: parties of the job.
        evidence: what was heard of them; one that has dropped out is not asked.
    """
    digest = digest_of_result(result)
    asked = [party for party in parties if not evidence.is_out(party.identity.name)]
    try:
        found = await asyncio.gather(*(_receipt(job_id, party, digest) for party in asked))
    except asyncio.CancelledError:
        found = []
    receipts = [one for one in found if one is not None]
    return canonical_json({**result, FIELD: receipts} if receipts else result)


async def _receipt(job_id: str, party: RosterParty, digest: bytes) -> dict[str, Any] | None:
    name = party.identity.name
    try:
        receipt_json, signed = await party.client.receipt(job_id, digest, timeout_s=RECEIPT_S)
        if len(receipt_json) + len(signed.certificate) + len(signed.signature) > MAX_RECEIPT_BYTES:
            raise ValueError(f"it has more than {MAX_RECEIPT_BYTES} bytes")
        fields = json.loads(receipt_json)
        check_public(fields, "it")
        if not isinstance(fields, dict) or canonical_json(fields) != receipt_json:
            raise ValueError("it is not canonical JSON of an object")
    except (ServiceError, ValueError, RecursionError) as error:
        _log.warning("no receipt of a party", job=job_id, party=name, cause=str(error))
        return None
    return SignedReceipt(fields, signed).as_dict()
