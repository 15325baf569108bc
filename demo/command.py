"""`moiety demo`: a whole federation or a program of one's own on this machine, real processes, one command."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from importlib.resources import files as package_files
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.terminal.output import ExitCode, Format, exit_codes, fail, print_json, print_text, say

CIRCUIT_MEMBERS = ("alice", "bob", "carol")
CIRCUIT_TIMEOUT_S = 300.0


class MomentMethod(StrEnum):
    """How low-rank approximation and least squares get their second moments."""

    MPC = "mpc"
    SKETCH = "sketch"


demo_app = typer.Typer(name="demo", help="Run a whole federation on this machine, on real data.", no_args_is_help=True)

Rows = Annotated[int | None, typer.Option(min=100, help="Connections to use; all 145,586 where absent.")]
Epsilon = Annotated[float | None, typer.Option(help="Privacy: smaller is more private.")]
Moments = Annotated[MomentMethod | None, typer.Option(help="Under shares, or the form of the paper.")]
Keep = Annotated[
    Path | None, typer.Option(help="New folder for tables, certificates, configurations and logs; kept afterwards.")
]
Output = Annotated[Format, typer.Option("--format", help="How the result is printed.")]


def _show(outcome: Any, text_of: Callable[[Any], str], output: Format) -> None:
    if output is Format.JSON:
        print_json(asdict(outcome))
    else:
        print_text(text_of(outcome))


@demo_app.callback()
def _several_demos() -> None:
    pass


@demo_app.command()
def pca(
    rows: Rows = None,
    components: Annotated[int, typer.Option(min=1, max=118, help="k, how many principal components.")] = 5,
    epsilon: Annotated[float, typer.Option(help="Privacy: smaller is more private.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Privacy: the probability left aside; below 1 / rows.")] = 1e-6,
    out: Annotated[Path, typer.Option(help="Folder for the plot and the JSON.")] = Path("demo-results"),
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """Private PCA of network connections of which three parties each hold some columns."""
    with exit_codes(), ExitStack() as stack:
        from demo.pca import run_demo, text_of

        changes = {"privacy.epsilon": epsilon, "privacy.delta": delta, "parameters.components": components}
        _show(run_demo(stack, keep, rows, changes, out), text_of, output)


@demo_app.command()
def data(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    rows: Rows = None,
    output: Output = Format.TEXT,
) -> None:
    """Write the demo's tables, one per party, for a deployment of your own."""
    with exit_codes():
        from demo.job import write_tables

        if out.exists() and not out.is_dir():
            fail(f"{out} is no folder", ExitCode.USAGE)
        out.mkdir(parents=True, exist_ok=True)
        written = {party: str(table.path) for party, table in write_tables(out, rows).tables.items()}
        if output is Format.JSON:
            print_json({"tables": written})
        else:
            print_text("\n".join(written.values()))


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
        if output is Format.JSON:
            print_json(answers)
        else:
            print_text("\n".join(f"{name}: {answer}" for name, answer in answers.items()))
        say(f"{time.monotonic() - started_s:.1f} s, most of which Python takes to start")
        if keep is not None:
            say(f"next: change {program} and run the three commands again, each in a terminal of its own")


@demo_app.command("clustering")
def find_clusters(
    rows: Rows = None,
    k: Annotated[int | None, typer.Option(min=1, max=100, help="How many clusters.")] = None,
    epsilon: Epsilon = None,
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """Kinds of network connections, from columns of three parties."""
    with exit_codes(), ExitStack() as stack:
        from demo.clustering import run_demo, text_of

        _show(run_demo(stack, keep, rows, {"privacy.epsilon": epsilon, "parameters.k": k}), text_of, output)


@demo_app.command("low-rank")
def approximate_low_rank(
    rows: Rows = None,
    rank: Annotated[int | None, typer.Option(min=1, max=117, help="k, dimensions of the subspace.")] = None,
    method: Moments = None,
    epsilon: Epsilon = None,
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """The subspace that keeps most of a table of which three parties each hold some columns."""
    with exit_codes(), ExitStack() as stack:
        from demo.low_rank import run_demo, text_of

        changes = {"privacy.epsilon": epsilon, "parameters.rank": rank, "parameters.method": method}
        _show(run_demo(stack, keep, rows, changes), text_of, output)


@demo_app.command("least-squares")
def regress(
    rows: Rows = None,
    method: Moments = None,
    epsilon: Epsilon = None,
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """Linear regression of a column of one party on those of all three."""
    with exit_codes(), ExitStack() as stack:
        from demo.least_squares import run_demo, text_of

        _show(run_demo(stack, keep, rows, {"privacy.epsilon": epsilon, "parameters.method": method}), text_of, output)


@demo_app.command("logistic-regression")
def classify(
    rows: Rows = None,
    epsilon: Epsilon = None,
    iterations: Annotated[int | None, typer.Option(min=11, help="Gradients to open.")] = None,
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """Which network connections are attacks, from columns of three parties of which one knows the label."""
    with exit_codes(), ExitStack() as stack:
        from demo.logistic_regression import run_demo, text_of

        _show(
            run_demo(stack, keep, rows, {"privacy.epsilon": epsilon, "parameters.iterations": iterations}),
            text_of,
            output,
        )


@demo_app.command("pattern-count")
def count_patterns(
    rows: Rows = None,
    method: Annotated[
        str | None, typer.Option(help="mpc, randomized-response, or subsampled, which needs --share.")
    ] = None,
    share: Annotated[float | None, typer.Option(help="Of the rows that are reported; with method subsampled.")] = None,
    epsilon: Epsilon = None,
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """How many network connections have each combination of categories that three parties know one of."""
    with exit_codes(), ExitStack() as stack:
        from demo.pattern_count import run_demo, text_of

        changes = {"privacy.epsilon": epsilon, "parameters.method": method, "parameters.share": share}
        _show(run_demo(stack, keep, rows, changes), text_of, output)


@demo_app.command("moments")
def moment(
    rows: Rows = None,
    method: Annotated[str | None, typer.Option(help="mpc; sketch for order 2; laplace for order 1.")] = None,
    order: Annotated[int | None, typer.Option(help="p: powers of what a row's counts add up to.")] = None,
    epsilon: Epsilon = None,
    keep: Keep = None,
    output: Output = Format.TEXT,
) -> None:
    """A moment of incidents per network connection, of which three parties each count some."""
    with exit_codes(), ExitStack() as stack:
        from demo.moments import run_demo, text_of

        changes = {"privacy.epsilon": epsilon, "parameters.method": method, "parameters.order": order}
        _show(run_demo(stack, keep, rows, changes), text_of, output)


@demo_app.command("sum")
def masked_sum(
    devices: Annotated[int, typer.Option(min=5, max=60, help="How many, each a process of its own.")] = 20,
    killed: Annotated[int, typer.Option(min=0, help="So many are killed, at random moments.")] = 6,
    seed: Annotated[
        int | None, typer.Option(help="Of the made-up data and of the moments; random where absent.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="New folder for records, certificates, configurations and logs; kept afterwards."),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """The exact sum of many devices' numbers, of which nobody learns any, while some devices are killed."""
    with exit_codes(), ExitStack() as stack:
        from demo.job import working_folder
        from demo.sum import run_demo, text_of

        if 2 * killed >= devices:
            fail("--killed: more than half of the devices must live, or their sum is not opened", ExitCode.USAGE)
        drawn = time.time_ns() % (1 << 32) if seed is None else seed
        outcome = run_demo(stack, working_folder(stack, keep), devices, killed, drawn)
        if output is Format.JSON:
            print_json(asdict(outcome) | {"seed": drawn})
        else:
            print_text(text_of(outcome))
        if not outcome.is_exact:
            raise typer.Exit(ExitCode.FAILED)
