"""Receipts of jobs: what a party states of a job that has ended, signed with the key of its certificate.

A receipt is a JSON object. What is signed is `LABEL` and the canonical JSON of that object, all its fields, also those
that only later versions know. A result carries the receipts of its parties as one more field, `FIELD`; the digest of a
result is that of all other fields.

A party states of its own knowledge everything but `result_digest` and `analyst`: parties never see an opened result, so
these two are what the coordinator told it. A party signs one result digest for one job.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from service.trust.statements import Signed

LABEL = b"moiety receipt of a job, version 1\n"

FIELD = "receipts"
"""Name of the field of a result that holds the receipts of its job."""

SEMI_HONEST = "semi-honest"
"""Security mode of plans that state none."""


class ReceiptError(ValueError):
    """A receipt that cannot be read; the text says why."""


@dataclass(frozen=True)
class Receipt:
    """The statement of a party about one job.

    Attributes:
        job_id: identifier of the job.
        party: identity of the signer, a URI.
        coordinator: name of the coordinator that the party computed with.
        analyst: name of the analyst who asked, as the coordinator said; the charge is booked under it.
        plan_digest: SHA-256 of the plan that the party computed for itself, hexadecimal.
        result_digest: SHA-256 of the result that the coordinator told, hexadecimal; the party has not seen the result.
        consent: who admitted the job, `policy` or `owner`.
        charge: `committed` where the ledger has charged the job, `exact` where it has recorded an exact result, `none`
            at a party without a table in the job.
        budget: what was left of the table's budget, as `remaining_part` of a listing: `before` and `after` the job when
            it was admitted, with `epsilon`, `delta`, `unit` and `period` of the budget. None where the owner does not
            show it (`show_budget`), and where nothing is charged.
        security: security mode of the job.
        moiety: version of Moiety at the party.
        protocol: number of the protocol that the party speaks.
        signed_at_s: Unix time by the party's clock, in whole seconds.
    """

    job_id: str
    party: str
    coordinator: str
    analyst: str
    plan_digest: str
    result_digest: str
    consent: str
    charge: str
    budget: Mapping[str, Any] | None
    security: str
    moiety: str
    protocol: int
    signed_at_s: int

    def canonical_json(self) -> str:
        """Return the one JSON text of this receipt."""
        return canonical_json(asdict(self))


@dataclass(frozen=True)
class SignedReceipt:
    """A receipt as a result carries it, with its signature. Nothing of it is checked.

    Attributes:
        fields: fields of the receipt.
        signed: signature, and certificate of the signer.
    """

    fields: Mapping[str, Any]
    signed: Signed

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data; bytes in base 64."""
        return {
            "receipt": dict(self.fields),
            "certificate": base64.b64encode(self.signed.certificate).decode(),
            "signature": base64.b64encode(self.signed.signature).decode(),
        }

    @classmethod
    def of_dict(cls, found: Any) -> "SignedReceipt":
        """Read what `as_dict` wrote.

        Raises:
            ReceiptError: it is something else.
        """
        try:
            fields = found["receipt"]
            parts = [base64.b64decode(found[name], validate=True) for name in ("certificate", "signature")]
        except (LookupError, TypeError, ValueError, binascii.Error) as error:
            raise ReceiptError("it is no receipt with a certificate and a signature") from error
        if not isinstance(fields, dict):
            raise ReceiptError("it states nothing")
        return cls(fields, Signed(*parts))


def statement_of(receipt_json: str) -> bytes:
    """Return the bytes that a party signs of a receipt.

    Args:
        receipt_json: canonical JSON of the receipt.
    """
    return LABEL + receipt_json.encode()


def canonical_json(value: Any) -> str:
    """Return the one JSON text of data: sorted keys, no spaces, ASCII, no NaN.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of_result(fields: Mapping[str, Any]) -> bytes:
    """Return the SHA-256 of a result: of the canonical JSON of all its fields but the receipts."""
    text = canonical_json({name: value for name, value in fields.items() if name != FIELD})
    return hashlib.sha256(text.encode()).digest()
