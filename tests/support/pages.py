"""Deployments whose services serve pages, and requests to them."""

import http.client
import os
from dataclasses import dataclass, field
from pathlib import Path

from forked_services import ForkedDeployment

from demo.local_deployment import START_TIMEOUT_S
from demo.loopback import loopback_addresses, toml

TOKEN = "correct-horse-battery-staple"
SCRAPER_TOKEN = "another-horse-with-a-lamp"


@dataclass
class DeploymentWithPages(ForkedDeployment):
    """Every service serves a page; owners log in by TOKEN.

    Attributes:
        pages: of these services, name to more fields of its section.
        page_at: name to address.
    """

    pages: dict[str, dict[str, str]] = field(default_factory=dict)
    page_at: dict[str, str] = field(default_factory=dict, init=False)

    def write_files(self) -> None:
        super().write_files()
        self.page_at = loopback_addresses(list(self.pages))
        for token, name in ((TOKEN, "token"), (SCRAPER_TOKEN, "scraper")):
            path = self.folder / name
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            path.write_text(token + "\n")
        for name, fields in self.pages.items():
            path = self.config_path(name)
            section = toml({}, {"page": {"listen": self.page_at[name], **fields}})
            text = path.read_text()
            head, bracket, rest = text.partition("\n[")
            path.write_text(head + section + bracket + rest)

    def wait_until_ready(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        super().wait_until_ready(name, timeout_s)
        if name in self.pages:
            self.wait_until_logged(name, "page is served", timeout_s)

    def get(self, name: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
        return self.request(name, "GET", path, **headers)

    def request(self, name: str, method: str, path: str, body: str = "", **headers: str):
        host, _, port = self.page_at[name].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=300)
        try:
            named = {key.replace("_", "-"): value for key, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, text
        finally:
            connection.close()


def metrics_of(text: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(number) for name, _, number in lines}


def page_folder(folder: Path) -> Path:
    (folder / "run").mkdir()
    return folder / "run"


def log_in(deployment: DeploymentWithPages, name: str) -> str:
    """Log in as the owner; return the cookie."""
    origin = f"http://{deployment.page_at[name]}"
    status, headers, text = deployment.request(name, "POST", "/login", f"token={TOKEN}", Origin=origin)
    assert (status, headers["location"]) == (303, "/"), text
    return headers["set-cookie"].partition(";")[0]
