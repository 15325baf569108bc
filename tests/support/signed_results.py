"""Files of results with receipts that real keys have signed, of which a test changes what it likes."""

import dataclasses
import datetime
import json

from registry_jobs import VARIANTS

from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from service.identity import Identity, Role
from service.pki import KeyPair, issue
from service.tls import Credentials
from service.trust.receipts import Receipt, SignedReceipt, digest_of_result, statement_of
from service.trust.statements import sign
from verify.document import digest_of

FEDERATION = "acme"
NOW = datetime.datetime.now(datetime.UTC)
OWNERS, HELPERS = ("bank", "hospital", "telco"), ("one", "two", "three")


def plan_of_count():
    variant = VARIANTS["joint-count"]
    job, tables = variant.job(), variant.tables()
    schemas = [tables[one].schema if one in tables else BlockSchema(party=one) for one in job.members]
    return analysis_of(job).plan(job, schemas)


PLAN = plan_of_count()
PRIVACY = json.loads(json.dumps(PLAN.privacy_report()))


class Signing:
    """Receipts of a job's parties, of which a test changes what it likes before it is signed."""

    def __init__(self, authority: KeyPair) -> None:
        self.authority = authority
        self.plan = json.loads(PLAN.canonical_json())
        self.result = {"analysis": "joint-count", "count": 12.5, "privacy": PRIVACY}

    def credentials(self, name, role=Role.PARTY, authority=None, days=10, now=NOW):
        pair = issue(authority or self.authority, role, name, days=days, now=now)
        return Credentials(
            Identity(FEDERATION, role, name), self.authority.certificate_pem, pair.certificate_pem, pair.key_pem, NOW
        )

    def receipt(self, name, **changes):
        is_owner = name in OWNERS
        receipt = Receipt(
            job_id="job-1",
            party=f"spiffe://{FEDERATION}/party/{name}",
            coordinator="hub",
            analyst="ann",
            plan_digest=digest_of(self.plan),
            result_digest=digest_of_result(self.result).hex(),
            consent="policy",
            charge="committed" if is_owner else "none",
            budget=None,
            security="semi-honest",
            moiety="1.0",
            protocol=3,
            signed_at_s=int(NOW.timestamp()),
        )
        return dataclasses.replace(receipt, **changes)

    def signed(self, name, credentials=None, **changes):
        text = self.receipt(name, **changes).canonical_json()
        signed = sign(credentials or self.credentials(name), statement_of(text))
        return SignedReceipt(json.loads(text), signed).as_dict()

    def document(self, replaced=None, **changes):
        """Return the file of a job; `replaced` is party to another receipt in its place, or None for none."""
        replaced = replaced or {}
        receipts = [replaced[one] if one in replaced else self.signed(one) for one in (*HELPERS, *OWNERS)]
        whole = {
            "job_id": "job-1",
            "submitted_by": "ann",
            "job": self.plan["job"],
            "plan": self.plan,
            "result": {**self.result, "receipts": [one for one in receipts if one is not None]},
        }
        return json.dumps({**whole, **changes})
