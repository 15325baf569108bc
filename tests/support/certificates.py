"""An authority of a test's own, and credentials that it issues."""

import datetime
from collections.abc import Callable
from pathlib import Path

from service.identity import Role
from service.pki import create_authority, issue
from service.tls import Credentials, load_credentials

Issue = Callable[[Role, str], Credentials]


def authority_in(folder: Path, federation: str) -> Issue:
    """Make `ca.pem` in a folder; return what issues `<role>-<name>.pem` and `.key` there and loads them."""
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority(federation, days=2, now=now)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)

    def issue_to(role: Role, name: str) -> Credentials:
        pair = issue(authority, role, name, days=1, now=now)
        certificate, key = folder / f"{role}-{name}.pem", folder / f"{role}-{name}.key"
        certificate.write_bytes(pair.certificate_pem)
        key.touch(mode=0o600)
        key.write_bytes(pair.key_pem)
        return load_credentials(authority=folder / "ca.pem", certificate=certificate, key=key)

    return issue_to


def tls_in(folder: Path, role: Role, name: str) -> dict[str, Path]:
    """Return the section `[tls]` of a configuration that uses these files."""
    certificate, key = folder / f"{role}-{name}.pem", folder / f"{role}-{name}.key"
    return {"authority": folder / "ca.pem", "certificate": certificate, "key": key}
