import json
import os
import stat

import pytest
from typer.testing import CliRunner

from cli.federation.pki import pki_app
from service.identity import Identity, Role
from service.tls import load_credentials


def run(*arguments, ok=True):
    result = CliRunner().invoke(pki_app, [str(argument) for argument in arguments])
    assert (result.exit_code == 0) == ok, result.output
    return result


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def ca(tmp_path):
    run("init", "--federation", "acme", "--out", tmp_path / "ca")
    return tmp_path / "ca"


def test_init_makes_a_private_folder_with_a_private_key(ca):
    assert mode(ca) == 0o700
    assert sorted(path.name for path in ca.iterdir()) == ["ca.key", "ca.pem"]
    assert mode(ca / "ca.key") == 0o600


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_do_not_depend_on_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        run("init", "--federation", "acme", "--out", tmp_path / "ca")
        run("issue", "--ca", tmp_path / "ca", "--member", "party/bank", "--out", tmp_path / "bank")
    finally:
        os.umask(before)
    assert mode(tmp_path / "ca") == mode(tmp_path / "bank") == 0o700
    assert mode(tmp_path / "ca" / "ca.key") == mode(tmp_path / "bank" / "bank.key") == 0o600


def test_issue_writes_two_files_that_load(ca, tmp_path):
    run("issue", "--ca", ca, "--role", "party", "--name", "bank", "--out", tmp_path / "bank")
    files = tmp_path / "bank"
    assert sorted(path.name for path in files.iterdir()) == ["bank.key", "bank.pem"]
    loaded = load_credentials(authority=ca / "ca.pem", certificate=files / "bank.pem", key=files / "bank.key")
    assert loaded.identity == Identity("acme", Role.PARTY, "bank")


def test_several_members_are_issued_at_once_and_listed_as_json(ca, tmp_path):
    out = tmp_path / "certificates"
    members = [part for who in ("party/bank", "coordinator/hub", "analyst/ann") for part in ("--member", who)]
    result = run("issue", "--ca", ca, *members, "--out", out, "--format", "json")
    names = [f"{name}.{kind}" for name in ("bank", "hub", "ann") for kind in ("pem", "key")]
    assert json.loads(result.stdout) == {"written": [str(out / name) for name in names]}
    assert {path.name for path in out.iterdir()} == set(names)


def test_init_lists_its_files_as_json_and_no_key(tmp_path):
    result = run("init", "--federation", "acme", "--out", tmp_path / "ca", "--format", "json")
    assert json.loads(result.stdout) == {"written": [str(tmp_path / "ca" / name) for name in ("ca.pem", "ca.key")]}
    assert "PRIVATE" not in result.output


def test_a_second_authority_in_the_folder_is_refused(ca):
    before = (ca / "ca.key").read_bytes()
    result = run("init", "--federation", "acme", "--out", ca, ok=False)
    assert (
        "ca.pem exists already. A new authority would invalidate all certificates that the old one issued: choose "
        "another folder"
    ) in result.stderr
    assert (ca / "ca.key").read_bytes() == before


def test_an_authority_does_not_move_into_an_open_folder_with_other_files(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    (folder / "notes").touch()
    result = run("init", "--federation", "acme", "--out", folder, ok=False)
    assert "open to other users and holds other files" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["notes"]
    assert mode(folder) == 0o755


def test_an_empty_folder_is_made_private(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir(mode=0o755)
    run("init", "--federation", "acme", "--out", folder)
    assert mode(folder) == 0o700


def test_a_missing_authority_comes_with_the_command_that_makes_one(tmp_path):
    result = run("issue", "--ca", tmp_path / "no", "--member", "party/bank", "--out", tmp_path, ok=False)
    assert f"there is no authority in {tmp_path / 'no'} (ca.pem is missing)" in result.stderr
    assert f"moiety pki init --federation NAME --out {tmp_path / 'no'}" in result.stderr


def test_existing_files_are_kept_and_nothing_new_is_written(ca, tmp_path):
    run("issue", "--ca", ca, "--member", "party/bank", "--out", tmp_path / "out")
    before = (tmp_path / "out" / "bank.key").read_bytes()
    result = run(
        "issue", "--ca", ca, "--member", "party/new", "--member", "party/bank", "--out", tmp_path / "out", ok=False
    )
    assert "bank.pem" in result.stderr
    assert "exists already; nothing was written. Use --force" in result.stderr
    assert (tmp_path / "out" / "bank.key").read_bytes() == before
    assert not (tmp_path / "out" / "new.key").exists()


def test_force_replaces_and_keeps_the_mode(ca, tmp_path):
    run("issue", "--ca", ca, "--member", "party/bank", "--out", tmp_path / "out")
    before = (tmp_path / "out" / "bank.key").read_bytes()
    run("issue", "--ca", ca, "--member", "party/bank", "--out", tmp_path / "out", "--force")
    assert (tmp_path / "out" / "bank.key").read_bytes() != before
    assert mode(tmp_path / "out" / "bank.key") == 0o600
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bank.key", "bank.pem"]


def test_a_link_in_the_place_of_a_key_is_not_followed(ca, tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    (out / "bank.key").symlink_to(elsewhere)
    result = run("issue", "--ca", ca, "--member", "party/bank", "--out", out, ok=False)
    assert "cannot write" in result.stderr
    run("issue", "--ca", ca, "--member", "party/bank", "--out", out, "--force")
    assert not elsewhere.exists()
    assert not (out / "bank.key").is_symlink()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name the member to certify: --member party/bank, or --role party --name bank"),
        (["--role", "party"], "--role and --name go together"),
        (["--name", "bank"], "--role and --name go together"),
        (
            ["--role", "king", "--name", "bank"],
            ("king' is not a role; the roles are party, coordinator, analyst, device"),
        ),
        (["--role", "party", "--name", "Bank"], "party name 'Bank': use 1 to 63 lower-case letters"),
        (["--role", "party", "--name", "../bank"], "party name '../bank'"),
        (["--member", "bank"], "--member 'bank' is not ROLE/NAME, for instance party/bank"),
        (["--member", "party/bank/x"], "is not ROLE/NAME"),
        (["--member", "party/bank", "--member", "party/bank"], "party/bank is named twice"),
        (["--member", "party/bank", "--member", "device/bank"], "two members are called 'bank'"),
        (["--member", "party/ca"], "a member cannot be called 'ca'"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(ca, tmp_path, arguments, text):
    result = run("issue", "--ca", ca, "--out", tmp_path / "out", *arguments, ok=False)
    assert text in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_a_bad_federation_name_is_explained_and_nothing_is_written(tmp_path):
    result = run("init", "--federation", "Acme Inc", "--out", tmp_path / "ca", ok=False)
    assert "federation name 'Acme Inc': use 1 to 63 lower-case" in result.stderr
    assert not (tmp_path / "ca").exists()


def test_a_folder_that_cannot_be_made_is_named(ca, tmp_path):
    (tmp_path / "file").touch()
    result = run("issue", "--ca", ca, "--member", "party/bank", "--out", tmp_path / "file" / "out", ok=False)
    assert f"cannot write {tmp_path / 'file'}" in result.stderr


@pytest.mark.parametrize(
    ("file", "what"), [("ca.key", "the authority's key"), ("ca.pem", "the authority's certificate")]
)
def test_a_damaged_authority_is_named(ca, tmp_path, file, what):
    (ca / file).write_text("hello")
    result = run("issue", "--ca", ca, "--member", "party/bank", "--out", tmp_path / "out", ok=False)
    assert f"error: {what} is damaged" in result.stderr
    assert "hello" not in result.output
