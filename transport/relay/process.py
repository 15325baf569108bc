"""The relay as a process of its own: `relay.toml`, start, SIGHUP and end."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Self

import structlog
from pydantic import StringConstraints

from service.identity import NAME_PATTERN, Identity, Role
from service.logs import LogFormat, LogLevel, configure_logs
from service.reach.relay_config import RelaySection
from service.settings import Settings, SettingsError, TlsFiles, load_settings
from service.tls import Credentials, credentials_of
from service.trust.changes import at_hangup, check_changes, guarded
from service.trust.expiry import warn_every_day
from service.watch.page_config import PageConfig
from transport.relay.hub import RelayHub

ENVIRONMENT_PREFIX = "MOIETY_RELAY"

MAY_CHANGE = ("log_level", "tls")
"""Fields that a running relay takes over at SIGHUP."""

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

_log = structlog.get_logger(__name__)


class RelayConfig(Settings):
    """All of `relay.toml`.

    Attributes:
        name: name of this relay in its certificate.
        federation: the federation whose members it serves.
        log_format: `json` or `console`.
        log_level: the lowest that is written: `debug`, `info`, `warning` or `error`.
        relay: where it listens.
        page: a page to look at, and metrics; none where absent.
        tls: this relay's certificate, its key, the authority.
    """

    name: Name
    federation: Name
    log_format: LogFormat = "console"
    log_level: LogLevel = "info"
    relay: RelaySection
    page: PageConfig | None = None
    tls: TlsFiles

    @classmethod
    def load(cls, path: Path, flags: Mapping[str, object] | None = None) -> Self:
        """Read the file, overridden by `MOIETY_RELAY__...` of the environment and by flags; see `load_settings`.

        Raises:
            SettingsError: it cannot be used; the text names each wrong field.
        """
        return load_settings(cls, path, prefix=ENVIRONMENT_PREFIX, flags=flags)


def own_credentials(config: RelayConfig) -> Credentials:
    """Load the files of `[tls]`.

    Raises:
        SettingsError: the certificate states another identity than the configuration.
        CredentialsError: the files cannot be used.
    """
    credentials, own = credentials_of(config.tls), Identity(config.federation, Role.RELAY, config.name)
    if credentials.identity != own:
        raise SettingsError(f"{config.tls.certificate} is the certificate of {credentials.identity}, not of {own}")
    return credentials


async def serve_relay(
    config: RelayConfig,
    read_again: Callable[[], RelayConfig],
    beside: Callable[[RelayHub], AbstractAsyncContextManager[None]] = lambda relay: nullcontext(),
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        config: configuration in `relay.toml`.
        read_again: reads the file anew, at SIGHUP.
        beside: what else runs as long as the relay serves.

    Raises:
        SettingsError: the certificate states another identity than the configuration.
        ServiceError: the certificates or the address cannot be used; the text says why.
    """
    configure_logs(config.log_format, level=config.log_level)
    credentials = own_credentials(config)
    hub = RelayHub(credentials)
    port = await hub.start(config.relay.listen)

    def reload() -> None:
        nonlocal config, credentials
        after = read_again()
        changed = check_changes(config, after, MAY_CHANGE)
        successor = own_credentials(after)
        credentials.check_successor(successor)
        hub.use(successor)
        config, credentials = after, successor
        configure_logs(config.log_format, level=config.log_level)
        _log.info("files were read again", name=config.name, changed=", ".join(changed) or "no field")

    loop, told_to_stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    expiry = asyncio.create_task(warn_every_day(lambda: credentials, config.name))
    _log.info("relay is ready", name=config.name, address=f"{config.relay.listen.rpartition(':')[0]}:{port}")
    try:
        async with beside(hub):
            with at_hangup(guarded(reload)):
                await told_to_stop.wait()
    finally:
        expiry.cancel()
        await hub.stop()
        _log.info("relay has stopped", name=config.name)
