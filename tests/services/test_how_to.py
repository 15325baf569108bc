"""The commands of the how-to guides, in the folders of `moiety new`."""

import json
import re
import shlex
import shutil
import sqlite3
import tomllib
from contextlib import closing

import pytest
from reader import REPOSITORY, Reader, blocks_of
from typer.testing import CliRunner

from cli.main import app
from service.reach import proxy
from service.reach.proxy_config import ProxyConfig


@pytest.fixture
def reader(tmp_path, monkeypatch):
    reader = Reader(tmp_path, monkeypatch)
    reader.types("moiety new acme --parties bank,clinic,shop")
    return reader


def test_the_page_about_prometheus_names_metrics_that_there_are():
    page, all_of_them = (
        (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
        for name in ("how-to/watch-with-prometheus.md", "operations.md")
    )
    named = set(re.findall(r"moiety_\w+", page))
    assert len(named) >= 3
    assert [name for name in named if f"{name} |" not in all_of_them and f"{name}, " not in all_of_them] == []


def test_the_page_about_proxies_has_a_section_that_is_read_and_the_words_of_doctor():
    path = REPOSITORY / "docs" / "how-to" / "through-a-proxy.md"
    page = path.read_text(encoding="utf-8")
    section = tomllib.loads(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0])["proxy"]
    assert ProxyConfig.model_validate(section).direct == ("10.0.0.0/8", "hub.bank.example")
    words = [row.split(" | ")[0].removeprefix("| ") for row in page.splitlines() if row.startswith("| our proxy")]
    meanings = {one.meaning for one in vars(proxy).values() if isinstance(one, proxy.ProxyFault)}
    assert len(words) == 5
    assert set(words) <= meanings
    assert "| the name of our proxy cannot be resolved |" in page


@pytest.mark.parametrize("example", ["party", "coordinator", "client", "device"])
def test_the_section_of_the_proxy_in_each_example_is_read(example):
    text = (REPOSITORY / "examples" / f"{example}.toml").read_text(encoding="utf-8")
    lines = re.search(r"^# \[proxy\]\n(?:# .*\n?)+", text, re.MULTILINE)[0]
    section = tomllib.loads(re.sub(r"^# ", "", lines, flags=re.MULTILINE))["proxy"]
    assert ProxyConfig.model_validate(section).password_file is not None


def exit_code_and_output(line: str, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*shlex.split(line)[1:], *more])
    return done.exit_code, done.stdout + done.stderr


def test_a_certificate_is_renewed(reader, tmp_path):
    (request,), (sign,), (*copies, doctor) = (block.lines for block in blocks_of("docs/how-to/renew-certificates.md"))
    bank = tmp_path / "acme" / "bank"
    before = [(bank / "pki" / name).read_bytes() for name in ("bank.key", "bank.pem")]
    reader.monkeypatch.chdir(bank)
    reader.types(request)
    shutil.copy(bank / "renewed" / "bank.csr", tmp_path)
    reader.monkeypatch.chdir(tmp_path)
    reader.types(sign, answer="y\n")
    shutil.copy(tmp_path / "certificates" / "bank.pem", bank)
    reader.monkeypatch.chdir(bank)
    for line in copies:
        reader.types(line)
    after = [(bank / "pki" / name).read_bytes() for name in ("bank.key", "bank.pem")]
    assert not set(before) & set(after)
    _, said = exit_code_and_output(doctor, "--format", "json", "--timeout", "0.5")  # nobody else is there
    checks = {check["name"]: check["outcome"] for check in json.loads(said)["checks"]}
    assert [checks[name] for name in ("certificate", "chain", "identity", "key", "key rights")] == ["ok"] * 5


def test_a_ledger_is_restored(reader, tmp_path):
    (backup,), (*puts_back, verify), (adopt, less) = (b.lines for b in blocks_of("docs/how-to/restore-the-ledger.md"))
    bank = tmp_path / "acme" / "bank"
    reader.monkeypatch.chdir(bank)
    _, path, done = shlex.split(backup)
    with closing(sqlite3.connect(path)) as used, closing(sqlite3.connect(done.split()[1])) as copy:
        used.backup(copy)
    for line in puts_back:
        reader.types(line)
    assert "the ledger is whole" in reader.types(verify)
    reader.types(less.replace("--epsilon 2", "--epsilon 3"))  # something happens after the copy
    for line in puts_back:
        reader.types(line)
    code, said = exit_code_and_output(verify)
    assert code != 0
    assert "restored from an old copy" in said
    reader.types(adopt)
    reader.types(less)
    assert "the ledger is whole" in reader.types(verify)
    shown = json.loads(reader.types("moiety budget show --config party.toml --format json"))
    assert shown["budgets"][0]["epsilon"] == 2


@pytest.mark.slow
def test_tables_of_other_rows_are_matched_in_both_ways(capsys):
    page = (REPOSITORY / "docs" / "how-to" / "match-tables.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(program, {})
    shown = capsys.readouterr().out
    for kind, reveals in (
        ("revealed", "which of its rows all owners have"),
        ("secret", "nobody learns which rows matched"),
    ):
        assert f"Rows are matched ({kind})" in shown
        assert reveals in shown
        assert f"\n{kind} " in shown
