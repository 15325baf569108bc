"""`moiety party serve`, `moiety coordinator serve` and `moiety relay serve`.

Numeric libraries read their number of threads when they are imported: it is set from the configuration before that, so
this module imports the services only inside the commands.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from cli import consent, questions
from cli.terminal.output import ExitCode, exit_codes, fail, this_command

T = TypeVar("T")

party_app = typer.Typer(name="party", no_args_is_help=True)
coordinator_app = typer.Typer(name="coordinator", no_args_is_help=True)
relay_app = typer.Typer(name="relay", no_args_is_help=True)

Listen = Annotated[str | None, typer.Option(help="host:port to serve on, instead of the configured one.")]
_COMMANDS = {"party": "party serve", "coordinator": "coordinator serve", "relay": "relay serve", "device": "device run"}
"""Role to the command that is its service."""
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@party_app.callback()
def _party() -> None:
    """Run a party's service beside its data; approve jobs."""


consent.add_to(party_app)
questions.add_to_party(party_app)


@coordinator_app.callback()
def _coordinator() -> None:
    """Run the coordinator's service."""


questions.add_to_coordinator(coordinator_app)


@relay_app.callback()
def _relay() -> None:
    """Run a relay for parties that only dial out."""


@party_app.command("serve")
def serve_party(
    config: Annotated[Path, typer.Option(help="The party's configuration, party.toml.")],
    listen: Listen = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. SIGHUP reads certificates and configuration again; jobs go on."""
    with exit_codes():
        hold_hangups()
        _limit_process(config, "MOIETY_PARTY")
        import uvloop

        from service.memory import made_to_stay, release_compiler

        with made_to_stay():
            from party.config import load_party_config
            from party.server import serve_party as serve

        release_compiler()
        read = partial(load_party_config, config, {"listen": listen})
        settings = _read(read, config, "party")
        if settings.page is None:
            uvloop.run(serve(settings, read))
            return
        from page.beside import beside_party

        uvloop.run(serve(settings, read, beside_party))


@coordinator_app.command("serve")
def serve_coordinator(
    config: Annotated[Path, typer.Option(help="The coordinator's configuration, coordinator.toml.")],
    listen: Listen = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. SIGHUP reads certificates and configuration again; jobs go on."""
    with exit_codes():
        hold_hangups()
        _limit_process(config, "MOIETY_COORDINATOR")
        import uvloop

        from service.memory import made_to_stay, release_compiler

        with made_to_stay():
            from coordinator.config import CoordinatorConfig
            from coordinator.server import serve_coordinator as serve

        release_compiler()
        read = partial(CoordinatorConfig.load, config, {"listen": listen})
        settings = _read(read, config, "coordinator")
        if settings.page is None:
            uvloop.run(serve(settings, read))
            return
        from page.beside import beside_coordinator, beside_standby

        uvloop.run(serve(settings, read, beside_coordinator, partial(beside_standby, config=settings)))


@relay_app.command("serve")
def serve_relay(
    config: Annotated[Path, typer.Option(help="The relay's configuration, relay.toml.")],
    listen: Listen = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. SIGHUP reads certificates and configuration again; ways in use go on."""
    with exit_codes():
        hold_hangups()
        import uvloop

        from service.secrecy import forbid_core_files
        from transport.relay.process import RelayConfig
        from transport.relay.process import serve_relay as serve

        forbid_core_files()
        read = partial(RelayConfig.load, config, {"relay.listen": listen})
        settings = _read(read, config, "relay")
        if settings.page is None:
            uvloop.run(serve(settings, read))
            return
        from page.relay_page import beside_relay

        uvloop.run(serve(settings, read, partial(beside_relay, config=settings.page)))


def _read(read: Callable[[], T], path: Path, role: str) -> T:
    """Read a configuration; where it is another member's, say so instead of all fields that are missing."""
    from service.settings_tree import SettingsError

    try:
        return read()
    except SettingsError as error:
        from cli.doctor.member import role_of

        required = {"party": "peers: missing", "coordinator": "store: missing", "relay": "relay: missing"}[role]
        if required not in str(error):  # one field too many does not make it another member's
            raise
        with suppress(SettingsError):
            if (found := role_of(path)) != role:
                what = f"{path} is the configuration of a member of the role {found}, not {role}"
                other = f": `{this_command()} {_COMMANDS[found]} --config {path}`" if found in _COMMANDS else ""
                fail(what + other, ExitCode.USAGE, code=SettingsError.code)
        raise


def hold_hangups() -> None:
    """Let a SIGHUP wait until the service reads its files again at one: before, it would end the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def _limit_process(path: Path, prefix: str) -> None:
    """Set the number of threads of the linear algebra library, read from the configuration like every other field."""
    from pydantic import BaseModel

    from service.memory import limit_heaps
    from service.secrecy import forbid_core_files
    from service.settings import load_settings

    forbid_core_files()
    limit_heaps()

    class Threads(BaseModel):
        blas_threads: int = 1

    n_threads = load_settings(Threads, path, prefix=prefix).blas_threads
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(n_threads)
