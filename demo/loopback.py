"""What processes on this machine need to find and trust each other: certificates, free ports, configuration files."""

import contextlib
import datetime
import json
import random
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from service.identity import Role
from service.pki import create_authority, issue_all


def write_certificates(folder: Path, federation: str, members: Sequence[tuple[Role, str]]) -> None:
    """Write `ca.pem` and, for each member, `NAME.pem` and `NAME.key`, valid for a day; names must be distinct."""
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority(federation, days=2, now=now)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    for (_, name), pair in issue_all(authority, members, days=1, now=now).items():
        (folder / f"{name}.pem").write_bytes(pair.certificate_pem)
        key = folder / f"{name}.key"
        key.touch(mode=0o600)
        key.write_bytes(pair.key_pem)


def tls_files(name: str) -> dict[str, str]:
    """Return the `[tls]` section of a member whose configuration lies beside its certificates."""
    return {"authority": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}


PORTS = range(20_000, 32_768)
"""Below those that systems give to outgoing connections: one of these could take a port before a service listens."""


def loopback_addresses(names: Sequence[str]) -> dict[str, str]:
    """Return an address for each name, with ports that were free a moment ago, drawn at random.

    Configurations must name the ports before anything listens on them.
    """
    with contextlib.ExitStack() as stack:
        return {name: f"127.0.0.1:{_free_port(stack)}" for name in names}


def _free_port(stack: contextlib.ExitStack) -> int:
    """Return a port, and hold it until the stack is left."""
    one = stack.enter_context(socket.socket())
    for port in random.SystemRandom().sample(PORTS, 100):
        with contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise OSError(f"a hundred ports between {PORTS.start} and {PORTS.stop - 1}, drawn at random, were all taken")


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
    return json.dumps(value)
