"""The analyst's side of a connection: `client.toml`, and a client of the coordinator made from it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from analyses.job.job import Name
from service.errors import ServiceError
from service.identity import Identity, Role
from service.reach.proxy_config import ProxyConfig
from service.settings import Addresses, Settings, SettingsError, TlsFiles, load_settings
from service.tls import credentials_of
from transport.calls.coordinator_client import CoordinatorClient
from transport.calls.leader import find_leader, open_coordinator_channel
from transport.calls.way import check_protocol

ENVIRONMENT_PREFIX = "MOIETY_CLIENT"


class CoordinatorEntry(Settings):
    """The coordinator to talk to.

    Attributes:
        name: name in its certificate.
        address: where it listens; a list of addresses where several share the name, of which one leads.
    """

    name: Name
    address: Addresses


class ClientConfig(Settings):
    """All of `client.toml`.

    Attributes:
        federation: the federation of the analyst and the coordinator.
        coordinator: whom to talk to.
        tls: the analyst's certificate, its key, the authority.
        proxy: through which the coordinator is dialled; directly where absent.
    """

    federation: Name
    coordinator: CoordinatorEntry
    tls: TlsFiles
    proxy: ProxyConfig | None = None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file, overridden by `MOIETY_CLIENT__...` of the environment.

        Raises:
            SettingsError: it cannot be used; the text names each wrong field.
        """
        if not path.exists():
            raise SettingsError(
                f"{path}: there is no such file; --client, MOIETY_CLIENT or Client(PATH) names your client.toml"
            )
        return load_settings(cls, path, prefix=ENVIRONMENT_PREFIX)


@asynccontextmanager
async def connect(config: ClientConfig) -> AsyncIterator[CoordinatorClient]:
    """Yield a client of the coordinator; nothing is sent before its first call.

    Raises:
        CredentialsError: the certificate files cannot be used.
        SettingsError: the certificate is of another federation.
        UnauthenticatedError: the coordinator's certificate is not accepted.
        ProtocolDiffersError: the coordinator speaks another protocol than this version.
    """
    async with open_coordinator(config) as (name, channel):
        yield CoordinatorClient(name, channel)


@asynccontextmanager
async def open_coordinator(config: ClientConfig) -> AsyncIterator[tuple[str, Any]]:
    """Yield the coordinator's name, for error texts, and a channel to it; raises as `connect`."""
    files = config.tls
    credentials = credentials_of(files, config.proxy)
    if credentials.identity.federation != config.federation:
        raise SettingsError(
            f"{files.certificate} belongs to federation {credentials.identity.federation}, not to {config.federation}"
        )
    coordinator = Identity(config.federation, Role.COORDINATOR, config.coordinator.name)
    addresses = config.coordinator.address
    async with open_coordinator_channel(addresses, coordinator, credentials) as channel:
        try:
            await find_leader(channel)
            who = f"{coordinator.name} ({', '.join(addresses)})"
            await check_protocol(channel, who)
            yield who, channel
        except ServiceError as error:  # its text has the cause: a traceback of a library below says nothing more
            error.__cause__, error.__suppress_context__ = None, True
            raise
