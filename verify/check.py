"""The whole check of a saved result: who signed, what fits together, what was recomputed, what is taken on trust."""

from verify.document import Document, DocumentError
from verify.findings import Finding, Verification, fails, on_trust, verified
from verify.plans import colluding
from verify.privacy import findings_of_privacy
from verify.receipts import findings_of_receipts
from verify.signers import Authority

_TRUST = (
    "that the result follows from what the parties opened: parties sign the digest that the coordinator told them",
    "that the rows of each owner are true, and within the bounds that the plan states",
    "that each party drew its noise, and ran the program that it names",
)


def verify(document: Document, authority: Authority) -> Verification:
    """Check a result; contacts nobody.

    Args:
        document: result with its plan.
        authority: authority that the reader trusts, from another source than the result.
    """
    found: list[Finding] = []
    job = document.plan["job"]
    if document.result.get("analysis") not in (None, job["analysis"]):
        found.append(fails("the result is of another analysis than the plan"))
    if document.job is not None and document.job != job:
        found.append(fails("the job beside the plan is not the one in the plan, which the parties have signed"))
    try:
        found += findings_of_receipts(document, authority)
        found += findings_of_privacy(document)
        n_colluding = colluding(job)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"its plan or its result is not as this version writes it ({type(error).__name__})"
        raise DocumentError(what) from error
    found += [on_trust(text) for text in _TRUST]
    found.append(on_trust(f"that at most {n_colluding} of the parties that computed told others what they saw"))
    found.append(_revocation(authority))
    return Verification(tuple(found))


def _revocation(authority: Authority) -> Finding:
    if authority.revoked is None:
        return on_trust("that no certificate was revoked: no revocation list was given")
    until = f"valid until {authority.revoked.not_valid_after:%Y-%m-%d %H:%M} UTC"
    return verified(f"no party that has signed is in the revocation list of number {authority.revoked.number}, {until}")


def verify_file(text: str, authority_pem: bytes, revoked_pem: bytes | None = None) -> Verification:
    """Check the JSON of a job as `moiety job show --format json` prints it.

    Args:
        text: the JSON.
        authority_pem: certificate of the federation's authority, from another source than the result.
        revoked_pem: its list of revoked certificates, if there is one.

    Raises:
        DocumentError: it holds no result that can be checked.
        ValueError: the certificate or the list cannot be used.
    """
    return verify(Document.of_json(text), Authority.of_pem(authority_pem, revoked_pem))
