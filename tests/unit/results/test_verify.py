"""Results in programs are verified as their files are, before and after they were saved."""

import pytest
from signed_results import FEDERATION, NOW, Signing

from results.saved import load
from service.pki import create_authority
from verify.check import verify_file


@pytest.fixture
def signing():
    return Signing(create_authority(FEDERATION, days=30, now=NOW))


def test_a_result_that_was_saved_and_loaded_is_verified_as_before(signing, tmp_path):
    first, again, ca = tmp_path / "first.json", tmp_path / "again.json", tmp_path / "ca.pem"
    ca.write_bytes(signing.authority.certificate_pem)
    first.write_text(signing.document())
    result = load(first)
    assert result.verify(ca).holds
    result.save(again)
    assert load(again).verify(ca).holds
    assert verify_file(again.read_text(), ca.read_bytes()).holds
    result.fields["count"] += 1
    assert not result.verify(ca).holds


def test_a_result_without_receipts_is_not_verified_and_says_why(signing, tmp_path):
    ca, path = tmp_path / "ca.pem", tmp_path / "result.json"
    ca.write_bytes(signing.authority.certificate_pem)
    path.write_text(signing.document())
    result = load(path)
    del result.fields["receipts"]
    with pytest.raises(ValueError, match="carries no receipts"):
        result.verify(ca)
