"""`moiety new`: a federation's folders, one for each member, which start as they are."""

import datetime
import ipaddress
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from cli.configuration.party_config import begin_ledger, read_config
from cli.federation.member_files import (
    ANALYST,
    COORDINATOR,
    Files,
    Layout,
    analyst_files,
    coordinator_files,
    party_files,
)
from cli.federation.pki import (
    AUTHORITY_CERTIFICATE,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    PUBLIC_FILE,
    PkiError,
    read_authority,
    write_authority,
    write_file,
)
from cli.terminal.output import ExitCode, Format, fail, print_result
from service.identity import Role
from service.pki import KeyPair, issue_all
from service.settings import check_addresses, host_fault

LOOPBACK = "127.0.0.1"
AUTHORITY = "authority"
MAX_PORT = 65535
BROADCAST = ipaddress.IPv4Address("255.255.255.255")


def new(
    name: Annotated[str, typer.Argument(help="Of the federation, and of the new folder.")],
    parties: Annotated[
        str, typer.Option(help="Names of at least three parties, with commas between: bank,clinic,shop.")
    ],
    hosts: Annotated[
        str,
        typer.Option(
            help="Where members run, if not all on this machine: NAME=HOST of each party and of the coordinator, "
            "with commas between; NAME=HOST:PORT for another port."
        ),
    ] = "",
    first_port: Annotated[
        int, typer.Option(min=1, max=MAX_PORT, help="The coordinator's port; the parties have the next ones.")
    ] = 7100,
    dial_out: Annotated[
        str,
        typer.Option(
            help="Parties that accept no connection from outside, with commas between; the coordinator relays for them."
        ),
    ] = "",
    out: Annotated[Path | None, typer.Option(help="The new folder; default: NAME in the current folder.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print what was written.")] = Format.TEXT,
) -> None:
    """Make one folder per member: configuration, an invented table, ways to run it, and two jobs for the analyst.

    Without --hosts everything runs on this machine, with certificates and keys for a trial. With --hosts no key is made
    but the authority's: each member makes its own (`moiety pki request`).
    """
    folder = Path(name) if out is None else out
    try:
        layout = layout_of(name, parties, hosts, first_port, dial_out)
        written = write_federation(folder, layout)
    except (PkiError, ValueError) as error:
        fail(error, ExitCode.USAGE)
    except OSError as error:
        fail(f"cannot write {error.filename or folder}: {error.strerror}", ExitCode.USAGE)
    steps = next_steps(folder, layout)
    value = {"written": [str(path) for path in written], "next": steps}
    print_result(output, value, [f"wrote {len(written)} files in {folder}", *steps])


def layout_of(federation: str, parties: str, hosts: str, first_port: int, dial_out: str = "") -> Layout:
    """Return who is where.

    Args:
        federation: its name.
        parties: names, with commas between.
        hosts: name=host or name=host:port for every member that serves, with commas between; empty for this machine.
        first_port: port of the coordinator.
        dial_out: names of parties that accept no connection from outside, with commas between; they need no host.

    Raises:
        ValueError: a name or address is missing, repeated, unknown or wrong.
    """
    named = [party.strip() for party in parties.split(",") if party.strip()]
    names = [COORDINATOR, *named]
    hidden = [party.strip() for party in dial_out.split(",") if party.strip()]
    if unknown := sorted(set(hidden) - set(named)):
        raise ValueError(f"--dial-out: {unknown[0]!r} is not among the parties")
    repeated = sorted({one for one in names if names.count(one) > 1})
    if repeated:
        raise ValueError(f"--parties: {repeated[0]!r} is named twice, or is the coordinator's name")
    if first_port + len(names) > MAX_PORT:
        raise ValueError(f"--first-port: {first_port} leaves no ports for {len(named)} parties below {MAX_PORT}")
    ports = {name: first_port + number for number, name in enumerate(names)}
    shown = [name for name in names if name not in hidden]
    places = dict.fromkeys(names, LOOPBACK) | (_places(hosts, shown) if hosts else {})
    addresses = {name: at if _has_port(at) else f"{at}:{ports[name]}" for name, at in places.items()}
    relay = f"{addresses[COORDINATOR].rpartition(':')[0]}:{first_port + len(names)}" if hidden else None
    try:
        dialled = {name: addresses[name] for name in (shown if hosts else names)}
        check_addresses(dialled if relay is None else {**dialled, "the relay": relay})
    except ValueError as error:
        raise ValueError(f"--hosts: {error}") from None
    ordered = {name: addresses[name] for name in (*named, COORDINATOR)}
    return Layout(federation, ordered, is_on_one_machine=not hosts, dial_out=frozenset(hidden), relay=relay)


def write_federation(folder: Path, layout: Layout) -> list[Path]:
    """Write the folders of all members and of the authority, and begin the parties' ledgers: all of it or nothing.

    Returns:
        The files, in order.

    Raises:
        PkiError: the folder exists already.
        OSError: it cannot be written.
    """
    if folder.exists():
        raise PkiError(f"{folder} exists already; nothing was written. Choose another name, or --out")
    folder.mkdir(parents=True)
    try:
        return _write_members(folder, layout)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write_members(folder: Path, layout: Layout) -> list[Path]:
    written = write_authority(folder / AUTHORITY, layout.federation, days=3650)
    authority = read_authority(folder / AUTHORITY)
    members: Mapping[str, tuple[Role, Files]] = {
        **{name: (Role.PARTY, party_files(layout, name)) for name in layout.parties},
        COORDINATOR: (Role.COORDINATOR, coordinator_files(layout)),
        ANALYST: (Role.ANALYST, analyst_files(layout)),
    }
    pairs: Mapping[tuple[Role, str], KeyPair] = {}
    if layout.is_on_one_machine:
        asked = [(role, name) for name, (role, _) in members.items()]
        pairs = issue_all(authority, asked, days=365, now=datetime.datetime.now(datetime.UTC))
    for name, (role, texts) in members.items():
        own = folder / name
        own.mkdir(mode=PRIVATE_FOLDER)
        folders = {
            "pki",
            *(["data"] if role is not Role.ANALYST else []),
            *(file.partition("/")[0] for file in texts if "/" in file),
        }
        for below in sorted(folders):
            (own / below).mkdir(mode=PRIVATE_FOLDER)
        contents = {file: (text.encode(), PUBLIC_FILE) for file, text in texts.items()}
        contents[f"pki/{AUTHORITY_CERTIFICATE}"] = (authority.certificate_pem, PUBLIC_FILE)
        if (pair := pairs.get((role, name))) is not None:
            contents[f"pki/{name}.pem"] = (pair.certificate_pem, PUBLIC_FILE)
            contents[f"pki/{name}.key"] = (pair.key_pem, PRIVATE_FILE)
        for file, (content, mode) in contents.items():
            write_file(own / file, content, mode, replace=False)
            written.append(own / file)
        if role is Role.PARTY:
            begin_ledger(read_config(own / "party.toml"))
    return written


def next_steps(folder: Path, layout: Layout) -> list[str]:
    """Return what to do next, a line each."""
    if layout.is_on_one_machine:
        serve = [f"moiety party serve --config {folder / name / 'party.toml'}" for name in layout.parties]
        return [
            "start each of these in a terminal of its own:",
            *(f"  {line}" for line in serve),
            f"  moiety coordinator serve --config {folder / COORDINATOR / 'coordinator.toml'}",
            "then ask:",
            f"  moiety job submit {folder / ANALYST / 'pca.toml'} --client {folder / ANALYST / 'client.toml'}",
        ]
    requests = [f"party/{name}" for name in layout.parties] + [f"{COORDINATOR}/{COORDINATOR}", f"{ANALYST}/{ANALYST}"]
    return [
        "send each member its folder; in it, each makes its own key:",
        *(f"  moiety pki request --federation {layout.federation} --member {who} --out pki" for who in requests),
        "and you certify what they send, when the fingerprint is the one that they read to you:",
        f"  moiety pki sign NAME.csr --ca {folder / AUTHORITY} --out certificates",
        "each puts its NAME.pem into its folder `pki`. Then, each in its folder:",
        "  moiety party serve --config party.toml",
        "  moiety coordinator serve --config coordinator.toml",
        "  moiety job submit pca.toml",
    ]


def _places(hosts: str, names: Sequence[str]) -> dict[str, str]:
    """Read `--hosts`: the host of each member that serves, perhaps with a port."""
    given: dict[str, str] = {}
    for part in filter(None, map(str.strip, hosts.split(","))):
        name, sign, place = (piece.strip() for piece in part.partition("="))
        if not sign:
            raise ValueError(f"--hosts: {part!r} names no member; write NAME=HOST or NAME=HOST:PORT")
        if name in given:
            raise ValueError(f"--hosts: {name!r} is named twice")
        if place and (fault := _fault_of(place)):
            raise ValueError(f"--hosts: {part}: {fault}")
        given[name] = place
    missing = [name for name in names if not given.get(name)]
    unknown = sorted(set(given) - set(names))
    if missing:
        raise ValueError(f"--hosts: no host is given for {', '.join(missing)}; write {missing[0]}=HOST")
    if unknown:
        raise ValueError(f"--hosts: {unknown[0]!r} is neither a party nor {COORDINATOR!r}")
    return {name: given[name] for name in names}


def _fault_of(place: str) -> str:
    """Return what is wrong with a host, perhaps with a port; empty where the other members can dial it."""
    host, _, port = place.rpartition(":") if _has_port(place) and "://" not in place else (place, "", "")
    if place.count(":") > 1 and not place.startswith("["):
        host, port = place, ""  # an IPv6 host, or a scheme before a host
    if fault := host_fault(host):
        return fault
    with suppress(ValueError):
        number = ipaddress.ip_address(host.strip("[]"))
        if number.is_unspecified:
            return f"{host} is where a service listens; write where the others dial it"
        if number.is_multicast or number == BROADCAST:
            return f"{host} is the address of many machines; write that of one"
    if host != place and not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        return f"a port is a number from 1 to {MAX_PORT}, not {port!r}"
    return ""


def _has_port(place: str) -> bool:
    return not place.endswith("]") and ":" in place
