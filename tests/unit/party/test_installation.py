import pytest

from entropy import SystemEntropy
from party.installation import Installation, InstallationError


def test_a_folder_has_one_name_for_ever(tmp_path):
    with Installation(tmp_path, SystemEntropy()) as first:
        name = first.name
    with Installation(tmp_path, SystemEntropy()) as again:
        assert again.name == name
    other = tmp_path / "other"
    other.mkdir()
    with Installation(other, SystemEntropy()) as elsewhere:
        assert elsewhere.name != name


def test_two_services_cannot_share_a_folder(tmp_path):
    with Installation(tmp_path, SystemEntropy()), pytest.raises(InstallationError, match="another service runs in"):
        Installation(tmp_path, SystemEntropy())


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(InstallationError, match="No such file"):
        Installation(tmp_path / "absent", SystemEntropy())
