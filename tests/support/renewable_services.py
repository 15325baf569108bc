"""A local deployment whose authority goes on signing: certificates are renewed and revoked, files read again."""

import datetime
import json
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from deadlines import GENEROUS_S
from forked_services import ForkedDeployment

from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME
from service.identity import Role
from service.pki import KeyPair, create_authority, issue
from service.trust.revocation import create_list

NOW = datetime.datetime.now(datetime.UTC)
REFUSED = "the reload is refused, and all stays as it was"


@dataclass
class RenewableDeployment(ForkedDeployment):
    """A deployment whose authority goes on signing, and whose members have a revocation list."""

    authority: KeyPair = field(default_factory=lambda: create_authority("local", days=9, now=NOW))

    def write_files(self) -> None:
        super().write_files()
        (self.folder / "ca.pem").write_bytes(self.authority.certificate_pem)
        for name in self.roles:
            self.renew(name)
        self.revoke()
        for name in (*self.tables, COORDINATOR_NAME):
            self.edit(name, "[tls]\n", '[tls]\nrevoked = "revoked.pem"\n')

    @property
    def roles(self) -> dict[str, Role]:
        members = {name: role for role, name in self.members}
        own = {COORDINATOR_NAME: Role.COORDINATOR, ANALYST_NAME: Role.ANALYST}
        return {**own, **dict.fromkeys(self.tables, Role.PARTY), **members}

    def renew(self, name: str) -> None:
        pair = issue(self.authority, self.roles[name], name, days=5, now=NOW)
        (self.folder / f"{name}.pem").write_bytes(pair.certificate_pem)
        (self.folder / f"{name}.key").write_bytes(pair.key_pem)

    def revoke(self, *names: str) -> None:
        self.revoke_serials(self.certificates(names))

    def revoke_serials(self, serials: Iterable[int]) -> None:
        (self.folder / "revoked.pem").write_bytes(
            create_list(self.authority, serials, days=3, now=datetime.datetime.now(datetime.UTC))
        )

    def certificate(self, name: str) -> bytes:
        return (self.folder / f"{name}.pem").read_bytes()

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.config_path(name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def certificates(self, names: Iterable[str]) -> list[int]:
        """Return the serial numbers of the certificates that members have now."""
        return [x509.load_pem_x509_certificate(self.certificate(name)).serial_number for name in names]

    def reload(self, *names: str, answer: str = "files were read again") -> list[dict]:
        """Let services read their files again; return the lines of their logs that tell how that ended."""
        before = {name: len(self.lines(name, answer)) for name in names}
        for name in names:
            self.send_signal(name, signal.SIGHUP)
        end_s = time.monotonic() + GENEROUS_S
        while any(len(self.lines(name, answer)) == before[name] for name in names):
            assert time.monotonic() < end_s, [self.log_path(name).read_text() for name in names]
            assert all(self.processes[name].poll() is None for name in names)
            time.sleep(0.02)
        return [self.lines(name, answer)[-1] for name in names]

    def lines(self, name: str, event: str) -> list[dict]:
        path = self.log_path(name)
        text = path.read_text() if path.exists() else ""  # a process that has just begun has none
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
        return [line for line in map(json.loads, filter(lambda text: text[:1] == "{", lines)) if line["event"] == event]
