"""Entry point of the command `moiety`: health probes are answered without loading `cli.main`, all else goes there.

`moiety health` is run several times a minute beside every service. Its usual form is therefore recognised before the
command line library is loaded; help, and whatever is not written as expected, is `cli.health`'s.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

DEFAULT_TIMEOUT_S = 10.0
FAILED, USAGE = 1, 2  # as in cli.terminal.output.ExitCode


def main() -> None:
    """Run the command line."""
    code = quick_health(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    from cli.main import main as run

    run()


def quick_health(arguments: Sequence[str]) -> int | None:
    """Answer `health --config FILE [--timeout S]` and return the exit code; None where it is anything else."""
    if arguments[:1] != ["health"]:
        return None
    given = dict(zip(arguments[1::2], arguments[2::2], strict=False))
    if len(arguments) % 2 == 0 or "--config" not in given or not set(given) <= {"--config", "--timeout"}:
        return None
    try:
        timeout_s = float(given.get("--timeout", DEFAULT_TIMEOUT_S))
    except ValueError:
        return None
    if not 0.1 <= timeout_s < float("inf"):
        return None
    from cli.doctor.probe import ProbeError, probe, target_of
    from service.codes.coded_text import told
    from service.settings_tree import SettingsError

    try:
        target = target_of(Path(given["--config"]))
        probe(target, timeout_s)
    except (ProbeError, SettingsError) as error:
        sys.stderr.write(f"error: {told(error)}\n")
        return FAILED if isinstance(error, ProbeError) else USAGE
    sys.stdout.write(f"{target.name} serves at {target.address}\n")
    return 0


if __name__ == "__main__":
    main()
