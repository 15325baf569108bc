"""Members of a mesh as processes on this machine: certificates and one configuration file each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo.loopback import loopback_addresses, tls_files, toml, write_certificates
from service.identity import Role


def write_mesh(folder: Path, names: Sequence[str], *, federation: str = "local", **fields: Any) -> dict[str, Path]:
    """Prepare a folder from which each member can join.

    Args:
        folder: exists, for certificates, keys and configurations.
        names: names of the members, in the order of their numbers.
        federation: its name.
        fields: more of `transport.messages.mesh.MeshConfig`, the same for all, for instance `deadline_s`.

    Returns:
        Name to the member's configuration file.
    """
    write_certificates(folder, federation, [(Role.PARTY, name) for name in names])
    addresses = loopback_addresses(names)
    roster = "".join("\n[[members]]\n" + toml({"name": name, "address": addresses[name]}) for name in names)
    files = {name: folder / f"{name}.toml" for name in names}
    for name, file in files.items():
        head = {"name": name, "federation": federation, **fields}
        file.write_text(toml(head, {"tls": tls_files(name)}) + roster)
    return files
