import http.server
import json
import sys
import threading

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from service.watch import notice
from service.watch.notice import NoticeConfig, tell_owner

pytestmark = pytest.mark.real_time

QUESTION = {
    "job_id": "0123456789abcdef",
    "analysis": "pca",
    "analyst": "ada",
    "deadline_s": 60.0,
    "title": "private?",
    "epsilon": {"coalition": 0.4711},
    "columns": ["salary"],
}
TOLD = {"party": "bank", "job_id": "0123456789abcdef", "analysis": "pca", "analyst": "ada", "deadline_s": 60.0}
WRITES = "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + str('MOIETY_SECRET' in os.environ))"


async def test_a_command_gets_the_job_and_no_secret_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MOIETY_SECRET", "x")
    out = tmp_path / "told; echo no shell"
    await tell_owner(NoticeConfig(command=(sys.executable, "-c", WRITES, str(out))), "bank", QUESTION)
    text, _, has_secret = out.read_text().partition("\n")
    assert json.loads(text) == TOLD
    assert has_secret == "False"


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.send_response(302 if self.path == "/moved" else 204)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self):
        self.server.got.append("followed")

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.got = []
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


async def test_a_web_hook_gets_the_job_and_is_not_followed_elsewhere(hook):
    url = f"http://127.0.0.1:{hook.server_port}"
    with capture_logs() as logs:
        await tell_owner(NoticeConfig(webhook=f"{url}/secret"), "bank", QUESTION)
        assert hook.got == [("/secret", "application/json", TOLD)]
        assert logs == []
        await tell_owner(NoticeConfig(webhook=f"{url}/moved"), "bank", QUESTION)
    assert "followed" not in hook.got
    assert [line["way"] for line in logs] == ["webhook"]


async def test_what_fails_is_logged_without_its_url_and_the_other_way_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(notice, "COMMAND_S", 0.2)
    for command in (("/nothing/here",), (sys.executable, "-c", "import sys; sys.exit(3)"), ("sleep", "600")):
        config = NoticeConfig(command=command, webhook="http://127.0.0.1:9/token-4711")
        with capture_logs() as logs:
            await tell_owner(config, "bank", QUESTION)
        assert sorted(line["way"] for line in logs) == ["command", "webhook"]
        assert "4711" not in str(logs)
    assert "4711" not in repr(config)


@pytest.mark.parametrize("url", ["http://example.org/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "https://", "x"])
def test_a_web_hook_that_others_could_read_is_refused(url):
    with pytest.raises(ValidationError, match="must be a https:// URL"):
        NoticeConfig(webhook=url)
    NoticeConfig(webhook="https://hooks.example.org/x")


def test_a_section_that_says_nothing_is_refused():
    with pytest.raises(ValidationError, match="give at least one of them"):
        NoticeConfig()
