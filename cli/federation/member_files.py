"""The files of each member of a new federation, from the templates of this package. Pure but for reading these."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from service.identity import check_name
from service.reach.addresses import BY_RELAY

COORDINATOR, ANALYST = "coordinator", "analyst"
TABLE = "people"
N_ROWS = 5000
"""Rows of each invented table: so many that the first answer to `pca.toml` stands out of its noise."""

OWN_PART = 0.25
"""Part of an invented value that is its own; the rest is how active its person is, which shows at all parties."""

COLUMNS: Mapping[str, tuple[float, float]] = {"visits": (0, 20), "amount": (0, 500)}
"""Columns of the invented tables, with their public bounds."""

DASK_IS_OPTIONAL = "# components: [dask]  # workers in a Dask cluster: dask/dask.yaml says what they need\n"

Files = dict[str, str]
"""Path in a member's folder to the text of the file."""


@dataclass(frozen=True)
class Layout:
    """Who is in a federation, and where.

    Attributes:
        federation: its name.
        addresses: addresses of the parties, in order, and of the coordinator: host:port for the others' calls.
        dial_out: parties that accept no connection from outside; they listen on loopback.
        relay: address at which the coordinator relays for them; None where there are none.
        is_on_one_machine: whether all addresses are loopback ones; services then listen on nothing else.

    Raises:
        ValueError: a name breaks the rule of names, or there are fewer than three parties.
    """

    federation: str
    addresses: Mapping[str, str]
    is_on_one_machine: bool
    dial_out: frozenset[str] = frozenset()
    relay: str | None = None

    def __post_init__(self) -> None:
        check_name("federation", self.federation)
        for name in self.parties:
            check_name("party", name)
        if ANALYST in self.addresses:
            raise ValueError(f"a party cannot be called {ANALYST!r}: the analyst is")
        if len(self.parties) < 3:
            few = f"a federation needs at least three parties, and these are {len(self.parties)}"
            raise ValueError(f"{few}; a third one may only compute, without a table")

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of the parties."""
        return tuple(name for name in self.addresses if name != COORDINATOR)

    def dialled(self, party: str) -> str:
        """Return where others dial a party: its address, or `relay`."""
        return BY_RELAY if party in self.dial_out else self.addresses[party]

    def relays(self, name: str) -> str:
        """Return the relay that a party uses, as TOML; empty where it needs none."""
        if self.relay is None or not (name in self.dial_out or self.dial_out - {name}):
            return ""
        return (
            "\n# The relay by which parties are reached that accept no connection from outside: the coordinator. It "
            "forwards sealed bytes.\n"
            f'[[relays]]\nname = "{COORDINATOR}"\nrole = "coordinator"\naddress = "{self.relay}"\n'
        )

    def ports(self, name: str) -> list[int]:
        """Return the ports at which others dial a member; none of a party that only dials out."""
        if name in self.dial_out:
            return []
        at = [self.addresses[name], *([self.relay] if name == COORDINATOR and self.relay is not None else [])]
        return [int(address.rpartition(":")[2]) for address in at]

    def listen(self, name: str) -> str:
        """Return the address at which a service listens."""
        address = self.addresses[name]
        return address if self.is_on_one_machine or name in self.dial_out else everywhere(address)


def everywhere(address: str) -> str:
    """Return where a service listens that others dial at an address: on all of its host's addresses of that kind."""
    host, _, port = address.rpartition(":")
    return f"{'[::]' if host.startswith('[') else '0.0.0.0'}:{port}"  # noqa: S104 -- members prove who they are


def party_files(layout: Layout, name: str) -> Files:
    """Return the files of one party: configuration, an invented table, and three ways to run it, one with workers."""
    peers = {peer: layout.dialled(peer) for peer in layout.parties if peer != name}
    values = {
        "name": name,
        "federation": layout.federation,
        "listen": layout.listen(name),
        "coordinator": layout.addresses[COORDINATOR],
        "peers": "\n".join(f'{peer} = "{address}"' for peer, address in peers.items()),
        "reach": 'reach = "dial-out"        # no connection from outside is accepted: others come by the relay below\n'
        if name in layout.dial_out
        else "",
        "relays": layout.relays(name),
        "table": TABLE,
        "bounds": "\n".join(f"{column} = [{low:g}, {high:g}]" for column, (low, high) in COLUMNS.items()),
    }
    return {
        "party.toml": _filled("party.toml", values),
        f"{TABLE}.csv": invented_table(name),
        **_services(layout, name, "party", f"Party {name}", data=("DATA_DIR", "/data"), more=(f"{TABLE}.csv",)),
        **{
            file: _filled(template, {"name": name, "what": f"party {name}"})
            for file, template in (
                ("dask/kustomization.yaml", "dask-kustomization.yaml"),
                ("dask/dask.yaml", "dask.yaml"),
                ("dask/party.yaml", "dask-party.yaml"),
            )
        },
    }


def coordinator_files(layout: Layout) -> Files:
    """Return the coordinator's files: configuration, and three ways to run it."""
    values = {
        "federation": layout.federation,
        "listen": layout.listen(COORDINATOR),
        "parties": "\n\n".join(
            f'[[parties]]\nname = "{name}"\naddress = "{layout.dialled(name)}"' for name in layout.parties
        ),
    }
    values["relay"] = ""
    if layout.relay is not None:
        listen = layout.relay if layout.is_on_one_machine else everywhere(layout.relay)
        values["relay"] = (
            f'\n# Parties that accept no connection from outside are reached here.\n[relay]\nlisten = "{listen}"\n'
        )
    services = _services(layout, COORDINATOR, "coordinator", "The coordinator", data=("STORE", "/data/jobs.sqlite"))
    return {"coordinator.toml": _filled("coordinator.toml", values), **services}


def analyst_files(layout: Layout) -> Files:
    """Return the analyst's files: configuration and two jobs."""
    values = {"federation": layout.federation, "coordinator": layout.addresses[COORDINATOR]}
    inputs = "".join(f'[[inputs]]\nparty = "{name}"\ntable = "{TABLE}"\n\n' for name in layout.parties)
    jobs = {"inputs": inputs, "columns": "`, `".join(COLUMNS)}
    return {
        "client.toml": _filled("client.toml", values),
        **{name: _filled(name, jobs) for name in ("mean.toml", "pca.toml")},
    }


def invented_table(name: str) -> str:
    """Return a CSV table of `N_ROWS` invented people, the same people for every party, as text."""
    shared, own = random.Random(TABLE), random.Random(name)  # noqa: S311 -- invented values, the same in every run
    lines = [",".join(["id", *COLUMNS])]
    for person in range(1, N_ROWS + 1):
        active = (1 - OWN_PART) * shared.triangular(0, 1, 1 / 4)
        parts = [active + OWN_PART * own.random() for _ in COLUMNS]
        values = [
            round(low + (high - low) * part, 2) for part, (low, high) in zip(parts, COLUMNS.values(), strict=True)
        ]
        lines.append(",".join([f"person-{person:03}", *map(str, values)]))
    return "\n".join(lines) + "\n"


def _services(
    layout: Layout, name: str, role: str, what: str, *, data: tuple[str, str], more: Sequence[str] = ()
) -> Files:
    ports = sorted({port for other in layout.addresses if other != name for port in layout.ports(other)})
    own = layout.ports(name)
    health = f'exec: {{command: ["moiety", "health", "--config", "/etc/moiety/{role}.toml", "--timeout", "50"]}}'
    port = layout.addresses[name].rpartition(":")[2]
    looked_at = f"tcpSocket: {{port: {port}}}" if own else health
    values = {
        "name": name,
        "federation": layout.federation,
        "what": what,
        "role": role,
        "config": f"{role}.toml",
        "port": port,
        "host": "0.0.0.0" if own else "127.0.0.1",  # noqa: S104 -- in a pod of its own
        "published": "".join(["    ports:\n", *(f'      - "{one}:{one}"\n' for one in own)]) if own else "",
        "reached": f"Other members reach it at port {port} of the service `{name}`, which has to be made reachable "
        "from outside of the cluster."
        if own
        else "It accepts no connection from outside: others reach it by the relay that its configuration names.",
        "service_ports": ", ".join(f"{{name: port-{one}, port: {one}}}" for one in own or [int(port)])
        if len(own) > 1
        else f"{{port: {port}}}",
        "container_ports": ", ".join(f"{{containerPort: {one}}}" for one in own or [int(port)]),
        "looked_at": looked_at,
        "ingress": f"\n    - ports: [{', '.join(f'{{protocol: TCP, port: {one}}}' for one in own)}]" if own else " []",
        "prefix": f"MOIETY_{role.upper()}",
        "data_field": data[0],
        "data_path": data[1],
        "config_files": ", ".join((f"{role}.toml", *more)),
        "components": DASK_IS_OPTIONAL if role == "party" else "",
        "ports_of_others": ", ".join(f"{{protocol: TCP, port: {port}}}" for port in ports),
    }
    return {
        "compose.yml": _filled("compose.yml", values),
        f"moiety-{name}.service": _filled("moiety.service", values),
        "kubernetes.yaml": _filled("kubernetes.yaml", values),
        "kustomization.yaml": _filled("kustomization.yaml", values),
    }


def _filled(name: str, values: Mapping[str, str]) -> str:
    template = files("cli.federation").joinpath("templates", name).read_text(encoding="utf-8")
    return Template(template).substitute(values)
