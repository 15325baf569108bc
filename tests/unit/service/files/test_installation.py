import pytest

from entropy import SystemEntropy
from service.files.installation import Installation, InstallationError
from service.settings import SettingsError


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


def test_a_folder_is_made_for_its_owner_only_or_refused_with_the_cause(tmp_path):
    made = tmp_path / "a" / "b"
    Installation.make_folder(made)
    Installation.make_folder(made)
    assert made.stat().st_mode & 0o777 == 0o700
    (tmp_path / "plain").touch()
    for path, cause in (("plain", "File exists"), ("plain/x", "Not a directory")):
        with pytest.raises(SettingsError, match=f"data_dir: {tmp_path}/{path} cannot be made: {cause}"):
            Installation.make_folder(tmp_path / path)
