import stat

from typer.testing import CliRunner

from cli.federation.pseudonyms import pki_app
from service.trust.pseudonym import name_of_device


def run(*arguments, ok=True, **options):
    result = CliRunner().invoke(pki_app, ["pseudonyms", *map(str, arguments)], **options)
    assert (result.exit_code == 0) == ok, result.output
    assert "Traceback" not in result.output
    return result


def test_each_line_of_input_becomes_the_name_of_a_device(tmp_path):
    key = tmp_path / "apps.key"
    run("--key", key, "--new")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    shown = run("--key", key, "--record", "smokes", input="ann\n\nben\r\n").stdout.split()
    assert shown == [name_of_device(key.read_bytes(), person, "smokes") for person in ("ann", "ben")]


def test_a_key_is_not_replaced_and_a_wrong_one_is_refused(tmp_path):
    key = tmp_path / "apps.key"
    run("--key", key, "--record", "smokes", input="ann\n", ok=False)
    key.write_bytes(b"short")
    run("--key", key, "--new", ok=False)
    assert key.read_bytes() == b"short"
    refused = run("--key", key, "--record", "smokes", input="ann\n", ok=False)
    assert "ann" not in refused.output
    run("--key", key, ok=False)
