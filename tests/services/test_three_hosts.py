"""docs/tutorials/own-hosts.md, followed to the letter on hosts of a network: keys, tables, a browser, a notebook."""

import contextlib
import json
import shlex
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from child_processes import child_environ
from deadlines import GENEROUS_S
from hosts import Hosts, are_allowed
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import sync_playwright
from reader import Reader, blocks_of
from traitlets.config import Config

PROGRAM, _, _, BANK, CLINIC, SHOP, *_ = blocks_of("docs/tutorials/own-tables.md")
NEW, REQUEST, SIGN, POLICY, PAGE, TOKEN, START, DOCTOR, QUESTION, ANSWER = blocks_of("docs/tutorials/own-hosts.md")
PARTIES = {"bank": BANK, "clinic": CLINIC, "shop": SHOP}
ANALYST = "analyst"


class Notebook:
    """A notebook whose kernel runs on a host. Its cells run one by one, in another thread than a browser's."""

    def __init__(self, on_host: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._short = tempfile.TemporaryDirectory()  # the names of sockets must be short
        kernel = Path(self._short.name) / "kernels" / "there"
        kernel.mkdir(parents=True)
        starts = [*on_host, sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (kernel / "kernel.json").write_text(json.dumps({"argv": starts, "display_name": "there", "language": "python"}))
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            monkeypatch.setenv(name, self._short.name)
        waits = dict.fromkeys(("timeout", "startup_timeout", "iopub_timeout"), GENEROUS_S)
        self._client = NotebookClient(
            new_notebook(),
            kernel_name="there",
            resources={"metadata": {"path": str(folder)}},
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{self._short.name}/socket"}}),
            **waits,
        )
        self._thread = ThreadPoolExecutor(1)
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Notebook":
        kernel = self._client.setup_kernel(env=child_environ())
        self._thread.submit(self._open.enter_context, kernel).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.submit(self._open.close).result()
        self._thread.shutdown()
        self._short.cleanup()

    def run(self, source: str) -> str:
        """Run a cell; return what it printed, and its last value as text."""
        cell = new_code_cell(source)
        self._client.nb.cells.append(cell)
        at = len(self._client.nb.cells) - 1
        self._thread.submit(self._client.execute_cell, cell, at).result()
        return "".join(one.get("text") or one.data["text/plain"] for one in cell.outputs)


def write_tables(reader: Reader, acme: Path) -> None:
    """Put the tables and their bounds in the places of the invented ones."""
    reader.runs(PROGRAM.text)
    for name, bounds in PARTIES.items():
        shutil.copy(f"{name}.csv", acme / name / "people.csv")
        path = acme / name / "party.toml"
        path.write_text(path.read_text().partition("[tables.bounds]")[0] + bounds.text)


def certify(reader: Reader, acme: Path) -> None:
    """Let each member make its key in its own folder, and the organiser sign what they send."""
    folder_of = {shlex.split(line)[6].partition("/")[2]: line for line in REQUEST.lines}
    for name, line in folder_of.items():
        reader.monkeypatch.chdir(acme / name)
        reader.types(line)
        shutil.copy(acme / name / "pki" / f"{name}.csr", acme.parent)
    reader.monkeypatch.chdir(acme.parent)
    for line in SIGN.lines:
        reader.types(line, answer="y\n")
    for name in folder_of:
        shutil.copy(acme.parent / "certificates" / f"{name}.pem", acme / name / "pki")


def prepare_the_bank(reader: Reader, bank: Path) -> None:
    """Write the policy and the page of the bank, and draw a token."""
    reader.monkeypatch.chdir(bank)
    text = (bank / "party.toml").read_text()
    before, heading, policy = text.partition("[policy.automatic]")
    assert policy.count("max_epsilon_per_job = 1.0\n") == 1
    policy = policy.replace("max_epsilon_per_job = 1.0\n", POLICY.text)
    (bank / "party.toml").write_text(before + PAGE.text + "\n" + heading + policy)
    for line in TOKEN.lines:
        reader.types(line)


def matrix_of(hosts: Hosts, coordinator: Path) -> tuple[int, str]:
    (doctor,) = DOCTOR.lines
    done = hosts.run("coordinator", coordinator, shlex.split(doctor)[1:])
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_three_hosts_answer_a_notebook_after_an_owner_has_approved_in_a_browser(tmp_path, monkeypatch):
    if not are_allowed():
        pytest.skip("this kernel gives no network namespaces to its users")
    reader, acme = Reader(tmp_path, monkeypatch), tmp_path / "acme"
    (new,) = NEW.lines
    addresses = dict(one.split("=") for one in shlex.split(new)[-1].split(","))
    began_s = time.monotonic()
    reader.types(new)
    assert [path.name for path in acme.rglob("*.key")] == ["ca.key"]
    write_tables(reader, acme)
    certify(reader, acme)
    prepare_the_bank(reader, acme / "bank")
    serve_party, serve_coordinator = (shlex.split(line)[1:] for line in START.lines)
    with Hosts({**addresses, ANALYST: "10.0.0.5"}) as hosts:
        for name in addresses:
            serve = serve_party if name in PARTIES else serve_coordinator
            hosts.start(name, acme / name, serve, tmp_path / f"{name}.log")
        end_s = time.monotonic() + GENEROUS_S
        while (found := matrix_of(hosts, acme / "coordinator"))[0] != 0:
            logs = [path.read_text() for path in tmp_path.glob("*.log")]
            assert time.monotonic() < end_s, (found, logs)
            time.sleep(0.5)
        with Notebook(hosts.on(ANALYST), acme / ANALYST, monkeypatch) as notebook:
            assert "bank.income, clinic.age, shop.orders" in notebook.run(QUESTION.text)
            waits = "while not job.view().waits_for_owners_of:\n    assert not job.view().has_ended, job.view()\n"
            notebook.run("import time\n" + waits + "    time.sleep(0.2)")
            assert "('bank',)" in notebook.run("job.view().waits_for_owners_of")
            approve_in_a_browser(hosts.on("bank"), (acme / "bank" / "page.token").read_text().strip(), tmp_path)
            assert "component 1" in notebook.run(ANSWER.text)
            assert notebook.run("assert result.n_above_noise >= 1") == ""
        print(f"from `moiety new` to the answer: {time.monotonic() - began_s:.1f} s")


def approve_in_a_browser(on_host: list[str], token: str, folder: Path) -> None:
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("Chromium is not installed: apt-get install chromium")
    there = folder / "chromium-there"
    there.write_text(f'#!/bin/sh\nexec {shlex.join([*on_host, path])} "$@"\n')
    there.chmod(0o700)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=there, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto("http://127.0.0.1:7180/")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        assert "In which ways do customers differ?" in page.get_by_role("main").inner_text()
        page.screenshot(path=str(folder / "waits.png"), full_page=True)
        page.get_by_role("button", name="Approve").click()
        page.get_by_role("link", name="Budget").click()
        page.get_by_role("heading", name="Budget").first.wait_for()
        page.screenshot(path=str(folder / "budget.png"), full_page=True)
        browser.close()
