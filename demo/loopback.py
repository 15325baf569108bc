"""What processes on this machine need to find and trust each other: certificates, free ports, configuration files."""

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demo.ports import free_ports
from service.identity import Role
from service.pki import KeyPair, create_authority, issue_all


def write_certificates(folder: Path, federation: str, members: Sequence[tuple[Role, str]]) -> KeyPair:
    """Write `ca.pem` and, for each member, `NAME.pem` and `NAME.key`, valid for a day; names must be distinct.

    Return the authority, whose key is written nowhere.

    The files of a party's workers, which bear its name, are `worker-NAME.pem` and `worker-NAME.key`.
    """
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority(federation, days=2, now=now)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    for (role, member), pair in issue_all(authority, members, days=1, now=now).items():
        name = f"worker-{member}" if role is Role.WORKER else member
        (folder / f"{name}.pem").write_bytes(pair.certificate_pem)
        key = folder / f"{name}.key"
        key.touch(mode=0o600)
        key.write_bytes(pair.key_pem)
    return authority


def tls_files(name: str) -> dict[str, str]:
    """Return the `[tls]` section of a member whose configuration lies beside its certificates."""
    return {"authority": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}


def loopback_addresses(names: Sequence[str]) -> dict[str, str]:
    """Return an address for each name, with a free port that nobody else is given; see `demo.ports`."""
    return {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}


def toml(fields: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Return TOML text of plain fields and of sections of them."""
    lines = [f"{key} = {_value(value)}\n" for key, value in fields.items()]
    for section, inner in (sections or {}).items():
        lines.append(f"\n[{section}]\n")
        lines += [f"{json.dumps(key)} = {_value(value)}\n" for key, value in inner.items()]
    return "".join(lines)


def _value(value: Any) -> str:
    """Return a value as TOML: JSON text and lists are TOML too, and mappings are inline tables."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)
