"""Whoever lies about receipts: each lie of a member, of the coordinator or of a stranger fails, and is named."""

import datetime
import json

import pytest
from cryptography import x509
from signed_results import FEDERATION, NOW, Signing

from service.identity import Role
from service.pki import create_authority
from service.trust.receipts import SignedReceipt, statement_of
from service.trust.revocation import create_list
from service.trust.statements import sign
from verify.check import verify, verify_file
from verify.document import Document, DocumentError
from verify.signers import Authority


@pytest.fixture
def authority():
    return create_authority(FEDERATION, days=30, now=NOW)


@pytest.fixture
def pem(authority):
    return authority.certificate_pem


@pytest.fixture
def signing(authority):
    return Signing(authority)


def failures(text, pem, revoked=None):
    return [one.text for one in verify_file(text, pem, revoked).findings if one.kind == "fails"]


def test_what_all_have_signed_holds(signing, pem):
    found = verify_file(signing.document(), pem)
    assert found.holds, found
    assert found.lines()[-1] == "the result holds"
    assert sum("has signed: it agreed to this plan" in one.text for one in found.findings) == 6


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"job_id": "job-2"}, "the receipt is of another job"),
        ({"plan_digest": "0" * 64}, "the plan is not the one that it agreed to"),
        ({"result_digest": "0" * 64}, "the result is not the one that it was told"),
        ({"analyst": "eve"}, "it ran the job for another analyst"),
        ({"security": "none"}, "it ran the job in another security mode"),
        ({"charge": "none"}, "it does not state that its ledger has charged the job"),
        ({"coordinator": "other"}, "more than one coordinator"),
        ({"party": f"spiffe://{FEDERATION}/party/telco"}, "signed in the name of another"),
        ({"signed_at_s": 0}, "not valid when the receipt says that it was signed"),
        ({"signed_at_s": 1e300}, "does not say when it signed"),
    ],
)
def test_one_member_that_states_something_else_is_found(signing, pem, changes, what):
    found = failures(signing.document({"bank": signing.signed("bank", **changes)}), pem)
    assert any(what in one for one in found), found


def test_a_coordinator_that_drops_swaps_or_repeats_receipts_is_found(signing, pem):
    assert failures(signing.document({"bank": None}), pem) == ["bank, who brought a table, has signed no receipt"]
    twice = failures(signing.document({"bank": signing.signed("telco")}), pem)
    assert "receipt 6: telco has signed twice" in twice
    assert "bank, who brought a table, has signed no receipt" in twice
    one = signing.signed("bank")
    swapped = {**one, "receipt": signing.signed("telco")["receipt"]}
    assert any("has not signed what it states" in text for text in failures(signing.document({"bank": swapped}), pem))


def test_a_helper_without_a_receipt_is_named_and_nothing_fails(signing, pem):
    found = verify_file(signing.document({"one": None}), pem)
    assert found.holds
    assert "one, who only computed, has signed no receipt" in [f.text for f in found.findings if f.kind == "on trust"]


def test_one_digit_of_the_result_one_of_the_plan_and_another_job_id_fail(signing, pem):
    document = json.loads(signing.document())
    document["result"]["count"] = 12.6
    assert len(failures(json.dumps(document), pem)) == 6
    document = json.loads(signing.document())
    document["plan"]["params"]["max_rows"] += 1
    assert len(failures(json.dumps(document), pem)) == 6
    assert len(failures(signing.document(job_id="job-9"), pem)) == 6
    assert len(failures(signing.document(submitted_by="eve"), pem)) == 6
    assert len(failures(signing.document(job={**signing.plan["job"], "title": "Another"}), pem)) == 1


def test_certificates_of_others_are_refused(signing, pem):
    other = create_authority(FEDERATION, days=30, now=NOW)
    strange = create_authority("elsewhere", days=30, now=NOW)
    for credentials, what in (
        (signing.credentials("bank", Role.DEVICE), "is no party of acme"),
        (signing.credentials("bank", Role.COORDINATOR), "is no party of acme"),
        (signing.credentials("bank", authority=other), "another authority signed it"),
        (signing.credentials("bank", authority=strange), "another authority signed it"),
        (signing.credentials("shop"), "shop has signed in the name of another"),
    ):
        found = failures(signing.document({"bank": signing.signed("bank", credentials)}), pem)
        assert any(what in one for one in found), found
    shop = signing.signed("shop", charge="none")
    assert "shop: it is no member of the job" in failures(signing.document({"bank": shop}), pem)


def test_a_certificate_that_has_expired_since_counts_and_one_that_had_expired_does_not(authority, pem):
    long_ago = NOW - datetime.timedelta(days=9)
    old = create_authority(FEDERATION, days=300, now=NOW - datetime.timedelta(days=20))
    signing = Signing(old)
    expired = signing.credentials("bank", days=2, now=long_ago)
    in_time = signing.signed("bank", expired, signed_at_s=int((long_ago + datetime.timedelta(days=1)).timestamp()))
    assert failures(signing.document({"bank": in_time}), old.certificate_pem) == []
    late = signing.signed("bank", expired)
    assert any("was not valid when" in one for one in failures(signing.document({"bank": late}), old.certificate_pem))


def test_a_revoked_certificate_fails_and_another_authoritys_list_is_refused(signing, authority, pem):
    bank = signing.credentials("bank")
    serial = x509.load_pem_x509_certificate(bank.certificate_pem).serial_number
    text = signing.document({"bank": signing.signed("bank", bank)})
    revoked = create_list(authority, [serial], days=5, now=NOW)
    assert any("the certificate of bank is revoked" in one for one in failures(text, pem, revoked))
    assert failures(text, pem, create_list(authority, [], days=5, now=NOW)) == []
    stale = create_list(authority, [serial], days=1, now=NOW - datetime.timedelta(days=20))
    assert any("revoked" in one for one in failures(text, pem, stale))
    other = create_authority(FEDERATION, days=30, now=NOW)
    with pytest.raises(ValueError, match="revocation list cannot be used"):
        verify_file(text, pem, create_list(other, [serial], days=5, now=NOW))


@pytest.mark.parametrize("one", [None, 7, {}, {"receipt": 1, "certificate": "", "signature": ""}, {"receipt": {}}])
def test_what_is_no_receipt_fails(signing, pem, one):
    document = json.loads(signing.document())
    document["result"]["receipts"][0] = one
    found = failures(json.dumps(document), pem)
    assert len(found) == 1
    assert found[0].startswith("receipt 1: ")


def test_what_is_no_result_is_refused_and_no_field_of_it_is_believed(signing, pem):
    for text in ("", "[]", "{}", '{"job_id": "a"}', "[" * 100_000, signing.document(result={"count": 1})):
        with pytest.raises(DocumentError):
            verify_file(text, pem)
    for plan in ({}, {"job": {}}, {"job": {"inputs": [1]}, "schemas": []}):
        with pytest.raises(DocumentError):
            verify_file(signing.document(plan=plan), pem)
    with pytest.raises(ValueError, match="authority's certificate"):
        verify_file(signing.document(), b"none")


def test_a_budget_that_an_owner_shows_is_told(signing, pem):
    budget = {"unit": "record", "period": "2026", "epsilon": 3.0, "delta": 1e-6, "before": 0.5, "after": 0.25}
    document = signing.document({"bank": signing.signed("bank", budget=budget)})
    found = verify_file(document, pem)
    assert found.holds
    assert any("50 % of its budget were left before, 25 % after" in one.text for one in found.findings)


def test_a_field_that_only_later_versions_know_is_covered_by_the_signature(signing, pem):
    text = json.dumps({**json.loads(signing.receipt("bank").canonical_json()), "zeal": 1}, sort_keys=True)
    text = text.replace(", ", ",").replace(": ", ":")
    later = SignedReceipt(json.loads(text), sign(signing.credentials("bank"), statement_of(text))).as_dict()
    assert failures(signing.document({"bank": later}), pem) == []
    later["receipt"]["zeal"] = 2
    assert failures(signing.document({"bank": later}), pem) != []


def test_the_document_of_a_result_object_needs_no_analyst(signing, pem):
    document = json.loads(signing.document())
    parts = Document.of_parts(document["job_id"], None, document["plan"], document["result"])
    assert verify(parts, Authority.of_pem(pem)).holds
