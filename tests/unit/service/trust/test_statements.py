"""Statements that others check by certificates: whose they are, and what is not accepted."""

import datetime
import hashlib
from dataclasses import replace

import pytest
from certificates import authority_in
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from service.errors import UnauthenticatedError
from service.identity import Identity, PeerCertificate, Role
from service.trust import statements
from service.trust.passed_certificates import PassedCertificates
from service.trust.revocation import RevocationList
from service.trust.statements import MAX_CERTIFICATE_BYTES, Signed, StatementCheck, sign

WORDS = b"a statement"
FAR = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def issue(tmp_path):
    return authority_in(tmp_path, "walkers")


def test_a_statement_is_its_signers_and_no_other_words(issue):
    signed = sign(issue(Role.DEVICE, "ann"), WORDS)
    check = StatementCheck(issue(Role.PARTY, "bank"))
    assert check.signer(signed, WORDS, Role.DEVICE) == Identity("walkers", Role.DEVICE, "ann")
    for words in (b"another statement", b"", WORDS + b"."):
        with pytest.raises(UnauthenticatedError, match="not signed by a member"):
            check.signer(signed, words, Role.DEVICE)


def test_another_role_is_refused(issue):
    signed = sign(issue(Role.DEVICE, "bank"), WORDS)
    with pytest.raises(UnauthenticatedError, match="is no party of walkers"):
        StatementCheck(issue(Role.PARTY, "shop")).signer(signed, WORDS, Role.PARTY)


def test_anothers_certificate_does_not_go_with_a_signature(issue):
    ann, ben = sign(issue(Role.DEVICE, "ann"), WORDS), sign(issue(Role.DEVICE, "ben"), WORDS)
    with pytest.raises(UnauthenticatedError, match="not signed"):
        StatementCheck(issue(Role.PARTY, "bank")).signer(Signed(ben.certificate, ann.signature), WORDS, Role.DEVICE)


def test_a_certificate_of_another_authority_is_refused(issue, tmp_path):
    (tmp_path / "other").mkdir()
    other = authority_in(tmp_path / "other", "walkers")
    signed = sign(other(Role.DEVICE, "ann"), WORDS)
    with pytest.raises(UnauthenticatedError, match="not signed"):
        StatementCheck(issue(Role.PARTY, "bank")).signer(signed, WORDS, Role.DEVICE)


def test_a_revoked_certificate_and_one_that_is_not_valid_now_are_refused(issue):
    signed = sign(issue(Role.DEVICE, "ann"), WORDS)
    own = issue(Role.PARTY, "bank")
    with pytest.raises(UnauthenticatedError, match="is the clock of this machine right"):
        StatementCheck(own, now=lambda: FAR).signer(signed, WORDS, Role.DEVICE)
    from cryptography import x509

    serial = x509.load_der_x509_certificate(signed.certificate).serial_number
    revoking = replace(own, revoked=RevocationList(1, frozenset({serial}), FAR))
    with pytest.raises(UnauthenticatedError, match="is revoked"):
        StatementCheck(revoking).signer(signed, WORDS, Role.DEVICE)


def test_what_changes_is_checked_of_a_certificate_that_has_passed_too(issue, tmp_path, monkeypatch):
    passed = PassedCertificates(bytes(32))
    ann, own = sign(issue(Role.DEVICE, "ann"), WORDS), issue(Role.PARTY, "bank")
    StatementCheck(own, passed=passed).signer(ann, WORDS, Role.DEVICE)
    with monkeypatch.context() as patched:
        patched.setattr(statements, "check_issued_by", None)  # what has passed is not asked again
        patched.setattr(statements, "check_member", None)
        StatementCheck(own, passed=passed).signer(ann, WORDS, Role.DEVICE)
        with pytest.raises(UnauthenticatedError, match="not signed by a member"):
            StatementCheck(own, passed=passed).signer(ann, b"other words", Role.DEVICE)
        with pytest.raises(UnauthenticatedError, match="is no party of walkers"):
            StatementCheck(own, passed=passed).signer(ann, WORDS, Role.PARTY)
        with pytest.raises(UnauthenticatedError, match="is the clock of this machine right"):
            StatementCheck(own, now=lambda: FAR, passed=passed).signer(ann, WORDS, Role.DEVICE)
        serial = statements.certificate_of(ann).serial_number
        revoking = replace(own, revoked=RevocationList(1, frozenset({serial}), FAR))
        with pytest.raises(UnauthenticatedError, match="is revoked"):
            StatementCheck(revoking, passed=passed).signer(ann, WORDS, Role.DEVICE)
    (tmp_path / "other").mkdir()
    elsewhere = StatementCheck(authority_in(tmp_path / "other", "walkers")(Role.PARTY, "bank"), passed=passed)
    with pytest.raises(UnauthenticatedError, match="not signed by a member"):
        elsewhere.signer(ann, WORDS, Role.DEVICE)


def test_what_was_refused_has_not_passed(issue, tmp_path):
    passed, own = PassedCertificates(bytes(32)), issue(Role.PARTY, "bank")
    (tmp_path / "other").mkdir()
    foreign = sign(authority_in(tmp_path / "other", "walkers")(Role.DEVICE, "ann"), WORDS)
    for _ in range(2):
        with pytest.raises(UnauthenticatedError, match="not signed by a member"):
            StatementCheck(own, passed=passed).signer(foreign, WORDS, Role.DEVICE)


@pytest.mark.parametrize("certificate", [b"", b"no certificate", bytes(MAX_CERTIFICATE_BYTES + 1)])
def test_what_is_no_certificate_is_refused(issue, certificate):
    with pytest.raises(UnauthenticatedError):
        StatementCheck(issue(Role.PARTY, "bank")).signer(Signed(certificate, b"x"), WORDS, Role.DEVICE)


def test_a_bare_signature_of_the_same_words_is_no_statement(issue):
    """What a key signs elsewhere, as in a handshake, has no label of a statement before it."""
    ann = issue(Role.DEVICE, "ann")
    key = serialization.load_pem_private_key(ann.key_pem, password=None)
    bare = Signed(sign(ann, WORDS).certificate, key.sign(WORDS, ec.ECDSA(hashes.SHA256())))
    with pytest.raises(UnauthenticatedError, match="not signed"):
        StatementCheck(issue(Role.PARTY, "bank")).signer(bare, WORDS, Role.DEVICE)


def test_the_label_fills_the_place_of_random_bytes_of_a_handshake():
    assert len(statements._LABEL) >= 64
    assert not statements._LABEL.startswith(b" " * 64)


def call_of(credentials, *, shows=None, ends=FAR):
    """A call by the holder of some credentials, over a connection that shows its certificate or another one."""
    certificate = sign(shows or credentials, b"").certificate
    return PeerCertificate(credentials.identity, 1, ends, hashlib.sha256(certificate).digest(), ends)


def test_the_callers_own_certificate_needs_a_signature_only(issue, tmp_path):
    """TLS has checked the rest, which the authority of this test's other federation shows: it would be refused."""
    ann = issue(Role.DEVICE, "ann")
    (tmp_path / "other").mkdir()
    elsewhere = StatementCheck(authority_in(tmp_path / "other", "walkers")(Role.COORDINATOR, "hub"))
    signed = sign(ann, WORDS)
    assert elsewhere.signer_of_call(signed, WORDS, call_of(ann)) == ann.identity
    with pytest.raises(UnauthenticatedError, match="not signed"):
        elsewhere.signer(signed, WORDS, Role.DEVICE)
    for words in (b"another statement", b""):
        with pytest.raises(UnauthenticatedError, match="not signed by a member"):
            elsewhere.signer_of_call(signed, words, call_of(ann))


def test_another_certificate_than_the_caller_shows_is_checked_in_full(issue, tmp_path):
    """A device may have a new certificate since it has signed; a stranger's authority is none."""
    check = StatementCheck(issue(Role.COORDINATOR, "hub"))
    before, now = issue(Role.DEVICE, "ann"), issue(Role.DEVICE, "ann")
    assert check.signer_of_call(sign(before, WORDS), WORDS, call_of(now)) == now.identity
    (tmp_path / "other").mkdir()
    forged = sign(authority_in(tmp_path / "other", "walkers")(Role.DEVICE, "ann"), WORDS)
    with pytest.raises(UnauthenticatedError, match="not signed by a member"):
        check.signer_of_call(forged, WORDS, call_of(now))
    with pytest.raises(UnauthenticatedError, match="too long"):
        check.signer_of_call(replace(forged, signature=bytes(1 << 20)), WORDS, call_of(now))


def test_a_certificate_that_has_ended_during_a_call_is_refused(issue):
    ann = issue(Role.DEVICE, "ann")
    ended = call_of(ann, ends=FAR - datetime.timedelta(days=1))
    check = StatementCheck(issue(Role.COORDINATOR, "hub"), now=lambda: FAR)
    with pytest.raises(UnauthenticatedError, match="is the clock of this machine right"):
        check.signer_of_call(sign(ann, WORDS), WORDS, ended)
