"""`moiety health`: asks the service of a configuration file, with the service's own certificate, whether it serves.

For health checks of containers and process supervisors: it ends with 0 if the service serves, with 1 if not, and with 2
where the configuration cannot be used.
"""

import asyncio
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from cli.output import ExitCode, Format, exit_codes, fail, print_json, print_text
from coordinator.config import CoordinatorConfig
from party.config import PartyConfig, load_party_config
from transport.channel import open_channel, wait_until_reachable
from transport.errors import ServiceError
from transport.tls import load_credentials

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 -- read here, not listened on
"""Addresses that one can listen at but not dial, and where to dial instead."""


def health(
    config: Annotated[Path, typer.Option(help="The service's own party.toml or coordinator.toml.")],
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the answer.")] = 3.0,
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Say whether the party or coordinator of this configuration is serving."""
    with exit_codes():
        settings = _load(config)
        try:
            address = asyncio.run(_ask(settings, timeout_s))
        except ServiceError as error:
            fail(str(error), ExitCode.FAILED)
    if output is Format.JSON:
        print_json({"name": settings.name, "address": address})
    else:
        print_text(f"{settings.name} serves at {address}")


def dialled(listen: str) -> str:
    """Return the address at which a service that listens at `listen` is reached from its own machine."""
    host, port = listen.rsplit(":", 1)
    return f"{_EVERYWHERE.get(host, host)}:{port}"


def _load(path: Path) -> PartyConfig | CoordinatorConfig:
    """Read either kind of file: a coordinator's is the one that lists parties, or members of masked sums."""
    try:
        is_coordinator = not {"parties", "sum_members"}.isdisjoint(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        is_coordinator = False  # the loader says what is wrong with it
    return CoordinatorConfig.load(path) if is_coordinator else load_party_config(path)


async def _ask(settings: PartyConfig | CoordinatorConfig, timeout_s: float) -> str:
    files = settings.tls
    credentials = load_credentials(authority=files.authority, certificate=files.certificate, key=files.key)
    address = dialled(settings.listen)
    channel = open_channel(address, credentials.identity, credentials)
    try:
        await wait_until_reachable(channel, peer=settings.name, address=address, deadline_s=timeout_s)
    finally:
        await channel.close()
    return address
