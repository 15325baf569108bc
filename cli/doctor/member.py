"""Who a configuration file is for, and what of it the checks need that load no numeric library.

The models of `party.config` and `device.config` load one. So files, certificates and connections are checked with what
is read here from the file's tree, like the health probe does.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cli.doctor.probe import COORDINATOR_PREFIX, PARTY_LISTENS_AT, PARTY_PREFIX, RELAY_PREFIX
from service.identity import Identity, Role
from service.reach.addresses import dialled
from service.reach.attempt import Caller, Peer
from service.reach.proxy_config import ProxyConfig
from service.reach.relays import BY_RELAY, ByRelays, RelayPoint, Way
from service.settings import explain_fields
from service.settings_tree import SettingsError, read_tree

PREFIXES = {
    Role.PARTY: PARTY_PREFIX,
    Role.COORDINATOR: COORDINATOR_PREFIX,
    Role.ANALYST: "MOIETY_CLIENT",
    Role.DEVICE: "MOIETY_DEVICE",
    Role.RELAY: RELAY_PREFIX,
}
"""Prefix of the environment's variables that override each file, as in the modules that read them."""

POSTGRES = ("postgresql://", "postgres://")
"""How a coordinator's store begins that is no file, as in `coordinator.config`."""

_PASSWORD = re.compile(r"^postgres(ql)?://([^/@]*:[^/@]*@|.*[?&]password=)")

_FIELDS_OF = {
    Role.COORDINATOR: {"parties", "sum_members", "analysts", "store"},
    Role.DEVICE: {"identity_file", "roster", "records"},
    Role.PARTY: {"peers", "tables", "data_dir", "listen", "ledger"},
    Role.RELAY: {"relay"},
}
"""Fields by which a file shows whose it is; the first role with one of them counts."""


@dataclass(frozen=True)
class Member:
    """The member whose configuration is checked.

    Attributes:
        path: path of the configuration file.
        role: see `role_of`.
        name: name in the configuration; an analyst's file has none, so its certificate says it.
        federation: federation in the configuration.
        authority, certificate, key: its PEM files.
        revoked: the authority's list of revoked certificates, if the file names one.
        proxy: proxy through which it dials, if the file names one.
        listen: address at which it serves; None for members that only dial.
        folder: where it keeps its data; None for analysts, relays, and for a coordinator that has all in a database.
        peers: whom it dials.
        relays: relays that it dials.
        stays: whether it stays connected to them, as it only dials out.
        has_password: whether the file, not the environment, may hold a password: a URL of a database.
    """

    path: Path
    role: Role
    name: str | None
    federation: str
    authority: Path
    certificate: Path
    key: Path
    revoked: Path | None
    proxy: ProxyConfig | None
    listen: str | None
    folder: Path | None
    peers: tuple[Peer, ...]
    relays: tuple[RelayPoint, ...]
    stays: bool
    has_password: bool

    @property
    def caller(self) -> Caller:
        """Return the identity with which it calls others."""
        return Caller(self.authority, self.certificate, self.key, str(self.path), self.revoked, self.proxy)

    @property
    def identity(self) -> Identity | None:
        """What its certificate must state; None for an analyst, who may be any one of the federation."""
        return None if self.name is None else Identity(self.federation, self.role, self.name)


def role_of(path: Path) -> Role:
    """Tell by its fields whose configuration a file is.

    Raises:
        SettingsError: it cannot be read, or has no field that tells.
    """
    tree, _ = read_tree(path, prefix="", environ={})
    for role, fields in _FIELDS_OF.items():
        if not fields.isdisjoint(tree):
            return role
    if {"federation", "coordinator", "tls"} <= set(tree):
        return Role.ANALYST
    raise SettingsError(
        f"{path}: no field tells whether it is the configuration of a party, a coordinator, a relay, an analyst or a "
        "device"
    )


def read_member(path: Path, role: Role) -> Member:
    """Read of a configuration what the light checks need.

    Args:
        path: the file; the environment overrides it.
        role: role of the member.

    Raises:
        SettingsError: it cannot be used; the text names the file and the field.
    """
    if role not in PREFIXES:
        raise SettingsError(f"{path}: a {role} has no configuration of its own; check that of its party")
    tree, _ = read_tree(path, prefix=PREFIXES[role], environ=os.environ)
    federation = _text(path, tree, "federation")
    tls = _section(path, tree, "tls")
    files = {field: path.parent / _text(path, tls, field, "tls.") for field in ("authority", "certificate", "key")}
    listen = None
    if role is Role.RELAY:
        listen = _address(path, _section(path, tree, "relay").get("listen"), "relay.listen")
    elif role in (Role.PARTY, Role.COORDINATOR):
        listen = _address(path, tree.get("listen", PARTY_LISTENS_AT if role is Role.PARTY else None), "listen")
    folder = None
    if role not in (Role.ANALYST, Role.RELAY):
        field = "data_dir"
        if role is Role.COORDINATOR:
            field = "survey_store" if _text(path, tree, "store").startswith(POSTGRES) else "store"
        if field != "survey_store" or field in tree:
            given = path.parent / _text(path, tree, field)
            folder = given.parent if role is Role.COORDINATOR else given
    in_file, _ = read_tree(path, prefix="", environ={})
    ledger, store = in_file.get("ledger"), in_file.get("store")
    try:
        return Member(
            path=path,
            role=role,
            name=None if role is Role.ANALYST else _text(path, tree, "name"),
            federation=federation,
            **files,
            revoked=path.parent / _text(path, tls, "revoked", "tls.") if "revoked" in tls else None,
            proxy=_proxy(path, tree),
            listen=listen,
            folder=folder,
            peers=tuple(_peers(path, tree, role, federation)),
            relays=_relays(path, tree, role, federation),
            stays=role is Role.PARTY and tree.get("reach") == "dial-out",
            has_password=(role is Role.PARTY and isinstance(ledger, dict) and "url" in ledger)
            or (role is Role.COORDINATOR and isinstance(store, str) and _PASSWORD.search(store) is not None),
        )
    except SettingsError:
        raise
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from error


def _peers(path: Path, tree: Mapping[str, Any], role: Role, federation: str) -> list[Peer]:
    if role is Role.RELAY:
        return []
    relays = _relays(path, tree, role, federation)
    if role is Role.COORDINATOR:
        entries = tree.get("parties", ())
        return [
            Peer(
                Identity(federation, Role.PARTY, _text(path, entry, "name", "parties.")),
                _way(path, entry.get("address"), "parties.address", relays),
            )
            for entry in (entries if isinstance(entries, list) else [])
        ]
    coordinator = _section(path, tree, "coordinator")
    name = _text(path, coordinator, "name", "coordinator.")
    given = coordinator.get("address")
    addresses = given if isinstance(given, list) and given else [given]
    first, *others = (_address(path, address, "coordinator.address") for address in addresses)
    found = [Peer(Identity(federation, Role.COORDINATOR, name), first, tuple(others))]
    if role is Role.PARTY:
        for peer, at in _section(path, tree, "peers").items():
            found.append(Peer(Identity(federation, Role.PARTY, peer), _way(path, at, f"peers.{peer}", relays)))
    return found


def _proxy(path: Path, tree: Mapping[str, Any]) -> ProxyConfig | None:
    if tree.get("proxy") is None:
        return None
    try:
        return ProxyConfig.model_validate(tree["proxy"], context={"folder": path.parent})
    except ValidationError as error:
        raise SettingsError("\n".join(f"{path}: proxy: {line}" for line in explain_fields(error))) from None


def _relays(path: Path, tree: Mapping[str, Any], role: Role, federation: str) -> tuple[RelayPoint, ...]:
    """Return the relays of a party or a coordinator, in the order in which they are tried."""
    found = []
    if role is Role.COORDINATOR and "relay" in tree:
        listen = _address(path, _section(path, tree, "relay").get("listen"), "relay.listen")
        found.append(RelayPoint(Identity(federation, role, _text(path, tree, "name")), dialled(listen)))
    entries = tree.get("relays", ()) if role in (Role.PARTY, Role.COORDINATOR) else ()
    for entry in entries if isinstance(entries, list) else ():
        kind = Role(entry.get("role", Role.RELAY))
        name = _text(path, entry, "name", "relays.")
        found.append(
            RelayPoint(Identity(federation, kind, name), _address(path, entry.get("address"), "relays.address"))
        )
    return tuple(found)


def _way(path: Path, value: object, label: str, relays: tuple[RelayPoint, ...]) -> Way:
    if value != BY_RELAY:
        return _address(path, value, label)
    if not relays:
        raise SettingsError(f"{path}: {label}: no relay is named: add one under [[relays]]")
    return ByRelays(relays)


def _section(path: Path, tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = tree.get(name)
    if not isinstance(section, dict):
        raise SettingsError(f"{path}: {name}: " + ("missing" if section is None else "must be a section"))
    return section


def _text(path: Path, section: Mapping[str, Any], field: str, label: str = "") -> str:
    value = section.get(field)
    if not isinstance(value, str):
        raise SettingsError(f"{path}: {label}{field}: " + ("missing" if value is None else "must be text"))
    return value


def _address(path: Path, value: object, label: str) -> str:
    if isinstance(value, str):
        host, _, port = value.rpartition(":")
        if host and port.isascii() and port.isdigit() and int(port) < 1 << 16:
            return value
    raise SettingsError(f"{path}: {label}: must be host:port, as in 127.0.0.1:7101, got {value!r}")
