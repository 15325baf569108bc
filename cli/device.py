"""`moiety device`: a member of masked sums, and its key."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.configuration.new_items import NewItemsFile, new_items
from cli.serve import hold_hangups
from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_result, print_text, say

device_app = typer.Typer(name="device", no_args_is_help=True)


@device_app.callback()
def _device() -> None:
    """Take part in masked sums with one person's data, over outgoing connections only."""


@device_app.command()
def run(
    config: Annotated[
        list[Path], typer.Option(help="The member's configuration, device.toml. Repeat it for several in one process.")
    ],
) -> None:
    """Wait for sums and take part in those that the configuration allows, until SIGTERM or Ctrl-C.

    SIGHUP reads certificates and configuration again; rounds go on.
    """
    with exit_codes():
        hold_hangups()
        from service.memory import made_to_stay
        from service.secrecy import forbid_core_files

        with made_to_stay():
            from device.config import DeviceConfig
            from device.running import run_devices
            from service.logs import configure_logs

        forbid_core_files()
        members = [DeviceConfig.load(path) for path in config]
        configure_logs(members[0].log_format)
        asyncio.run(run_devices(*(partial(DeviceConfig.load, path) for path in config)))


@device_app.command()
def key(
    out: Annotated[Path, typer.Option(help="New file for the private key; only you may read it.")],
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Make this member's signing key. Prints the public half, which goes into everybody's roster."""
    with exit_codes():
        from device.config import write_identity_key
        from entropy import SystemEntropy

        try:
            public = write_identity_key(out, SystemEntropy())
        except FileExistsError:
            fail(f"{out} exists already; a new key would be a new member", ExitCode.USAGE)
        except OSError as error:
            fail(f"cannot write {out}: {error.strerror}", ExitCode.USAGE)
        if output is Format.JSON:
            print_json({"public_key": public.hex(), "private_key_file": str(out)})
        else:
            print_text(public.hex())
            say(f"wrote {out}")


@device_app.command()
def budget(
    config: Annotated[Path, typer.Option(help="The member's configuration, device.toml.")],
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Show the privacy budget of this member and what masked sums have spent of it, also while the member runs."""
    with exit_codes():
        from device.config import DeviceConfig

        found = DeviceConfig.load(config).read_ledger()
        print_result(output, found, _lines_of(found))


@device_app.command()
def report(
    config: Annotated[Path, typer.Option(help="The member's configuration, device.toml.")],
    sum_round: Annotated[str, typer.Argument(metavar="[ROUND]", help="Default: list the rounds.")] = "",
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Show what this member clipped of its own record for a sum. It reveals facts about the record: keep it private."""
    with exit_codes():
        from device.config import DeviceConfig
        from device.report import describe_sum_report, kept_rounds, read_sum_report

        data_dir = DeviceConfig.load(config).data_dir
        if not sum_round:
            rounds = kept_rounds(data_dir)
            print_result(output, rounds, "\n".join(rounds) or "no round has been answered yet")
            return
        found = read_sum_report(data_dir, sum_round)
        print_result(output, found, describe_sum_report(found))


@device_app.command()
def responses(
    config: Annotated[Path, typer.Option(help="The member's configuration, device.toml.")],
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """List the questions of surveys that this member has met, and its response to each. Also while it runs."""
    with exit_codes():
        from device.config import DeviceConfig
        from device.response_store import read_responses

        found = read_responses(DeviceConfig.load(config).response_path)
        if output is Format.JSON:
            print_json(found)
            return
        for one in found:
            given = "no response" if one["response"] is None else f"response {one['response']}"
            print_text(f"{one['survey']}  {one['record']}, epsilon {one['epsilon']:g}: {given}, {one['outcome']}")
        if not found:
            print_text("no question was met yet")


@device_app.command()
def check(
    config: Annotated[Path, typer.Option(help="The member's configuration, device.toml.")],
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Check which records match the configuration. Others count as zeros, and only you learn about that."""
    with exit_codes():
        from device.config import DeviceConfig

        loaded = DeviceConfig.load(config)
        found = {record.name: record.as_kept().why_unusable() or None for record in loaded.records}
        lines = (
            f"{name}: matches its declaration" if why is None else f"{name}: would count as zeros: {why}"
            for name, why in found.items()
        )
        print_result(output, found, lines)
        if any(found.values()):
            raise typer.Exit(ExitCode.FAILED)


@device_app.command()
def recommend(
    config: Annotated[Path, typer.Option(help="The member's configuration, device.toml.")],
    record: Annotated[str, typer.Option(help="Which ratings; needed where there are several.")] = "",
    model: Annotated[
        Path | None,
        typer.Option(help="Answer of a matrix factorization, as JSON. Default: the newest that this device was in."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many items at most.")] = 10,
    new: NewItemsFile = None,
    output: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TEXT,
) -> None:
    """Recommend items to this member's user, from its own ratings and a public model. Nothing is sent."""
    with exit_codes():
        from device.config import DeviceConfig
        from device.models import NoModelError
        from device.recommend import recommend_own
        from service.files.text_file import TextFileError

        try:
            found = recommend_own(DeviceConfig.load(config), record, top=top, model_path=model, new=new_items(new))
        except (NoModelError, TextFileError) as error:
            fail(error, ExitCode.NOT_FOUND)
        except ValueError as error:
            fail(error, ExitCode.USAGE)
        value = [{"item": one.item, "rating": one.rating} for one in found]
        print_result(output, value, (f"{one.rating:7.3f}  {one.item}" for one in found))


def _lines_of(found: dict[str, Any]) -> list[str]:
    """Return the lines on a member's budget for its owner; epsilons are rounded in the safe direction."""
    from device.report import lines_of_person
    from ledger.standing import lines_of

    standing, lines = found["budget"], []
    if standing is None:
        lines.append("no privacy budget was ever used here: no noisy sum was answered")
    else:
        told = lines_of(standing | {"exact_results": 0}, jobs="sums", members="members")
        lines += [f"period {standing['period']!r}, per {standing['unit']}", *told]
        lines += [f"  {line}" for line in lines_of_person(standing)]
    if found["exact_sums"]:
        lines.append(f"  exact      {found['exact_sums']} sums without noise, which no epsilon counts")
    return lines
