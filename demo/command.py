"""`moiety demo`: a whole federation or a program of one's own on this machine, real processes, one command."""

import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from importlib.resources import files as package_files
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_result, say
from demo.catalogue import COMMON, DEMOS, Demo, Option
from service.memory import made_to_stay

CIRCUIT_MEMBERS = ("alice", "bob", "carol")
CIRCUIT_TIMEOUT_S = 300.0


demo_app = typer.Typer(name="demo", help="Run a whole federation on this machine, on real data.", no_args_is_help=True)

Rows = Annotated[int | None, typer.Option(min=100, help="Rows of the data set to use; all where absent.")]
Keep = Annotated[
    Path | None, typer.Option(help="New folder for tables, certificates, configurations and logs; kept afterwards.")
]
Out = Annotated[Path, typer.Option(help="Folder for the plot and the numbers.")]
KeepDevices = Annotated[
    Path | None, typer.Option(help="New folder for records, certificates, configurations and logs; kept afterwards.")
]
Seed = Annotated[int | None, typer.Option(help="Of the made-up data and of the moments; random where absent.")]
Output = Annotated[Format, typer.Option("--format", help="How the result is printed.")]


class FactorForm(StrEnum):
    """How devices factorize ratings."""

    STATISTICS = "statistics"
    SGD = "sgd"


def _parameter(option: Option) -> Parameter:
    least, most = option.limits
    kind: Any = option.kind | None
    annotation = Annotated[kind, typer.Option(help=option.help, min=least, max=most)]
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _add(demo: Demo) -> None:
    """Make the command of a demo; what it imports is imported when it runs."""

    def command(rows: int | None, out: Path, keep: Path | None, output: Format, **given: Any) -> None:
        with exit_codes(), ExitStack() as stack:
            with made_to_stay():
                from demo.job import run_demo
                from demo.text import text_of

            outcome = run_demo(stack, demo, keep, rows, out, given)
            print_result(output, asdict(outcome), text_of(outcome, demo, given))

    taken = [
        Parameter("rows", Parameter.KEYWORD_ONLY, default=None, annotation=Rows),
        *map(_parameter, (*demo.options, *COMMON)),
        Parameter("out", Parameter.KEYWORD_ONLY, default=Path("demo-results"), annotation=Out),
        Parameter("keep", Parameter.KEYWORD_ONLY, default=None, annotation=Keep),
        Parameter("output", Parameter.KEYWORD_ONLY, default=Format.TEXT, annotation=Output),
    ]
    if demo.methods:
        kind: Any = StrEnum("Method", {name: name for name in demo.methods})  # type: ignore[misc]  # not known to mypy
        taken.insert(1, _parameter(Option("method", kind, f"By default {next(iter(demo.methods))}.", "")))
    command.__signature__ = Signature(taken)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {one.name: one.annotation for one in taken}
    demo_app.command(demo.name, help=demo.help)(command)


@demo_app.callback()
def _several_demos() -> None:
    import structlog  # noqa: F401 - a library of the services: missed here, before they are started


for _demo in DEMOS:
    _add(_demo)


@demo_app.command()
def data(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    rows: Rows = None,
    table: Annotated[str, typer.Option(help="Which one, by the name that examples call it.")] = "connections",
    output: Output = Format.TEXT,
) -> None:
    """Write the demo's tables, one per party, for a deployment of your own."""
    with exit_codes():
        from demo.job import DATA_SETS, write_tables

        if table not in DATA_SETS:
            fail(f"--table: must be one of {', '.join(DATA_SETS)}", ExitCode.USAGE)

        if out.exists() and not out.is_dir():
            fail(f"{out} is no folder", ExitCode.USAGE)
        out.mkdir(parents=True, exist_ok=True)
        written = {party: str(table.path) for party, table in write_tables(out, rows, table).tables.items()}
        print_result(output, {"tables": written}, written.values())


@demo_app.command()
def circuit(
    keep: Annotated[
        Path | None, typer.Option(help="New folder for the program, certificates and configurations; kept afterwards.")
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """A program on the secrets of three processes, without a coordinator: to read, to change, to run again."""
    with exit_codes(), ExitStack() as stack:
        from demo.job import working_folder
        from demo.local_mesh import write_mesh

        folder = working_folder(stack, keep)
        program = folder / "circuit.py"
        program.write_text(package_files("cli").joinpath("data", "examples", "circuit.py").read_text())
        configurations = write_mesh(folder, CIRCUIT_MEMBERS, federation="demo")
        say("starting three processes, mutual TLS on loopback")
        started_s = time.monotonic()
        processes = {}
        for name, configuration in configurations.items():
            command = [sys.executable, str(program), "--mesh", str(configuration)]
            say(f"  {' '.join(command)}")
            processes[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603 -- our own interpreter and program
            stack.callback(processes[name].kill)
        answers = {}
        for name, process in processes.items():
            answer, errors = process.communicate(timeout=CIRCUIT_TIMEOUT_S)
            if process.returncode != 0:
                fail(f"{name}: {errors.strip()}", ExitCode.FAILED)
            answers[name] = answer.strip()
        print_result(output, answers, "\n".join(f"{name}: {answer}" for name, answer in answers.items()))
        say(f"{time.monotonic() - started_s:.1f} s, most of which Python takes to start")
        if keep is not None:
            say(f"next: change {program} and run the three commands again, each in a terminal of its own")


@demo_app.command()
def matching(
    customers: Annotated[int, typer.Option(min=300, max=100_000, help="How many each party has.")] = 3000,
    epsilon: Annotated[float, typer.Option(min=0.1, help="Privacy: smaller is more private.")] = 4.0,
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """Private logistic regression on the customers that three tables of different forms have in common."""
    with exit_codes(), ExitStack() as stack:
        with made_to_stay():
            from demo.job import working_folder
            from demo.matching import run_demo, text_of

        outcome = run_demo(stack, working_folder(stack, keep), customers, epsilon)
        print_result(output, asdict(outcome), text_of(outcome))


def _tell(output: Format, outcome: Any, seed: int, text: str, *, is_right: bool) -> None:
    """Print what a demo of devices came to; ends the program with its exit code where that is not as it must be."""
    print_result(output, asdict(outcome) | {"seed": seed}, text)
    if not is_right:
        raise typer.Exit(ExitCode.FAILED)


def _seed_or_random(seed: int | None) -> int:
    return time.time_ns() % (1 << 32) if seed is None else seed


@demo_app.command("sum")
def masked_sum(
    devices: Annotated[int, typer.Option(min=5, max=60, help="How many, each a process of its own.")] = 20,
    killed: Annotated[int, typer.Option(min=0, help="So many are killed, at random moments.")] = 6,
    seed: Seed = None,
    keep: KeepDevices = None,
    output: Output = Format.TEXT,
) -> None:
    """The exact sum of many devices' numbers, of which nobody learns any, while some devices are killed."""
    with exit_codes(), ExitStack() as stack:
        from demo.devices.sum import run_demo, text_of
        from demo.job import working_folder

        if 2 * killed >= devices:
            fail("--killed: more than half of the devices must live, or their sum is not opened", ExitCode.USAGE)
        drawn = _seed_or_random(seed)
        outcome = run_demo(stack, working_folder(stack, keep), devices, killed, drawn)
        _tell(output, outcome, drawn, text_of(outcome), is_right=outcome.is_exact)


@demo_app.command("survey")
def survey(
    devices: Annotated[int, typer.Option(min=2, max=60, help="How many, each a process of its own.")] = 40,
    killed: Annotated[int, typer.Option(min=0, help="So many are killed and started again.")] = 10,
    seed: Seed = None,
    keep: KeepDevices = None,
    output: Output = Format.TEXT,
) -> None:
    """How a number is distributed over devices that trust nobody, while some are killed and started again."""
    with exit_codes(), ExitStack() as stack:
        from demo.devices.survey import run_demo, text_of
        from demo.job import working_folder

        if killed > devices:
            fail("--killed: there are not so many devices", ExitCode.USAGE)
        drawn = _seed_or_random(seed)
        outcome = run_demo(stack, working_folder(stack, keep), devices, killed, drawn)
        _tell(output, outcome, drawn, text_of(outcome), is_right=outcome.is_one_each)


@demo_app.command("factor-devices")
def factor_devices(
    devices: Annotated[int, typer.Option(min=5, max=60, help="How many, each a process of its own.")] = 8,
    killed: Annotated[int, typer.Option(min=0, help="So many are killed, within rounds or between them.")] = 2,
    form: Annotated[FactorForm, typer.Option(help="Of the rounds: least squares, or gradient descent.")] = (
        FactorForm.STATISTICS
    ),
    again: Annotated[
        bool, typer.Option("--again", help="Ask once more, from the answer on, about new ratings alone; statistics.")
    ] = False,
    seed: Seed = None,
    keep: KeepDevices = None,
    output: Output = Format.TEXT,
) -> None:
    """What people like, from the ratings on their own devices in several masked sums, while some devices are killed."""
    with exit_codes(), ExitStack() as stack:
        from demo.devices.factors import run_demo, text_of
        from demo.job import working_folder

        if 2 * killed >= devices:
            fail("--killed: more than half of the devices must live, or no sum is opened", ExitCode.USAGE)
        if again and form is not FactorForm.STATISTICS:
            fail("--again: a question of the form sgd starts from no earlier answer", ExitCode.USAGE)
        drawn = _seed_or_random(seed)
        outcome = run_demo(stack, working_folder(stack, keep), devices, killed, drawn, form, again=again)
        _tell(output, outcome, drawn, text_of(outcome), is_right=outcome.is_consistent)
