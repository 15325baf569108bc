"""The receipts of a result, compared with its plan and with each other."""

from collections.abc import Mapping
from typing import Any

from service.trust.receipts import FIELD, SEMI_HONEST, ReceiptError, SignedReceipt, digest_of_result
from verify.document import Document, digest_of
from verify.findings import Finding, fails, named, on_trust, verified
from verify.plans import members, owners
from verify.signers import Authority, SignerError

_CHARGES = {"committed": "its ledger has charged the job", "exact": "its ledger has recorded the exact result"}


def findings_of_receipts(document: Document, authority: Authority) -> list[Finding]:
    """Return what the receipts of a result prove.

    Each signed receipt must be of this job, plan, result, analyst and coordinator, and no party may have signed twice.
    Every owner of data in the plan must have signed, and state that its ledger has charged the job.

    Args:
        document: result with its plan.
        authority: authority that the reader trusts.
    """
    found: list[Finding] = []
    signed: dict[str, Mapping[str, Any]] = {}
    for number, one in enumerate(document.result.get(FIELD) or (), start=1):
        try:
            receipt = SignedReceipt.of_dict(one)
            name = authority.signer(receipt)
        except (ReceiptError, SignerError) as error:
            found.append(fails(f"receipt {number}: {error}"))
            continue
        if name in signed:
            found.append(fails(f"receipt {number}: {name} has signed twice"))
        signed[name] = receipt.fields
    for name, fields in signed.items():
        wrong = _faults(fields, name, document)
        found += [fails(f"{name}: {what}") for what in wrong] or [verified(_signed_in_words(name, fields))]
    found += _missing(document, signed)
    found += _versions(signed)
    return found


def _faults(fields: Mapping[str, Any], name: str, document: Document) -> list[str]:
    """Return what does not fit in a receipt whose signature is good."""
    job, plan = document.plan["job"], document.plan
    expected = {
        "job_id": (document.job_id, "the receipt is of another job"),
        "plan_digest": (digest_of(plan), "the plan is not the one that it agreed to"),
        "result_digest": (digest_of_result(document.result).hex(), "the result is not the one that it was told"),
        "analyst": (document.analyst, "it ran the job for another analyst"),
        "security": (job.get("security", SEMI_HONEST), "it ran the job in another security mode"),
    }
    wrong = [text for field, (value, text) in expected.items() if value is not None and fields.get(field) != value]
    if name not in members(job):
        return [*wrong, "it is no member of the job"]
    charges = {"exact" if job["privacy"] is None else "committed"} if name in owners(job) else {"none"}
    if fields.get("charge") not in charges:
        wrong.append("it does not state that its ledger has charged the job")
    return wrong


def _signed_in_words(name: str, fields: Mapping[str, Any]) -> str:
    admitted = {"policy": "by its policy", "owner": "by its owner in person"}.get(str(fields.get("consent")), "")
    charge = _CHARGES.get(str(fields.get("charge")), "it has no table in it")
    budget = fields.get("budget")
    left = ""
    if isinstance(budget, dict) and all(isinstance(budget.get(one), int | float) for one in ("before", "after")):
        before, after = (f"{100 * budget[one]:.3g} %" for one in ("before", "after"))
        left = f"; {before} of its budget were left before, {after} after"
    return f"{name} has signed: it agreed to this plan, admitted the job {admitted}, and {charge}{left}"


def _missing(document: Document, signed: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    job = document.plan["job"]
    absent = [name for name in owners(job) if name not in signed]
    found = [fails(f"{name}, who brought a table, has signed no receipt") for name in absent]
    if not absent:
        found.append(verified(f"every owner of data has signed: {named(owners(job))}"))
    helpers = [name for name in members(job) if name not in owners(job) and name not in signed]
    return found + [on_trust(f"{name}, who only computed, has signed no receipt") for name in helpers]


def _versions(signed: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    found = []
    for field, what in (("coordinator", "coordinator"), ("analyst", "analyst")):
        if len({str(fields.get(field)) for fields in signed.values()}) > 1:
            found.append(fails(f"the receipts name more than one {what}"))
    stated = sorted({str(fields.get("moiety")) for fields in signed.values()})
    if stated:
        found.append(on_trust(f"the parties ran Moiety {named(stated)}, as they say, and nothing else"))
    return found
