"""`moiety health`: asks the service of a configuration file, with the service's own certificate, whether it serves.

For health checks of containers and process supervisors: it ends with 0 if the service serves, with 1 if not, and with 2
where the configuration cannot be used. `cli.doctor.probe` asks; `cli.entry` answers the usual form without loading
this.
"""

from pathlib import Path
from typing import Annotated

import typer

from cli.doctor.probe import ProbeError, probe, target_of
from cli.entry import DEFAULT_TIMEOUT_S
from cli.terminal.output import ExitCode, Format, fail, print_result
from service.settings_tree import SettingsError


def health(
    config: Annotated[Path, typer.Option(help="The service's own party.toml or coordinator.toml.")],
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the answer.")
    ] = DEFAULT_TIMEOUT_S,
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Report whether the party, coordinator or relay of this configuration is serving.

    Exit codes: 0 it serves; 1 it does not, or cannot be reached; 2 wrong usage, or its file cannot be used.
    """
    try:
        target = target_of(config)
        probe(target, timeout_s)
    except SettingsError as error:
        fail(error, ExitCode.USAGE)
    except ProbeError as error:
        fail(error, ExitCode.FAILED)
    print_result(output, {"name": target.name, "address": target.address}, f"{target.name} serves at {target.address}")
