"""A Gram matrix, products and comparisons with MP-SPDZ among three parties on this machine, beside ours.

    python -m bench.peers.mp_spdz --source DIR [--rows 10000] [--columns 100] [--elements 1000000] [--repeats 3]
    python -m bench.peers.mp_spdz --source DIR --task products --task less --compared 100000

DIR is a checkout of MP-SPDZ in which some of its programs are built: `apt install
libboost-{dev,thread-dev,filesystem-dev,iostreams-dev} libsodium-dev libgmp-dev libssl-dev clang`; simde, SimpleOT and
SimplestOT_C in `deps/`; `USE_KOS = 1` in `CONFIG.mine`; then `make -j2 shamir-party.x malicious-shamir-party.x
sy-shamir-party.x atlas-party.x replicated-field-party.x`, of which one takes some four minutes of a core;
`Scripts/setup-ssl.sh 3`. What is not built is left out. This script writes programs into its `Programs/Source` and
inputs into its `Player-Data`, compiles and runs them, and prints JSON.

Its seconds are those of its own timers, without start and handshake: `product_s` from when all inputs are shared until
the result is open (Gram) or shared (others), `all_s` with the inputs, which its parties read as text. `processor_s` is
that of its first party, start and inputs included. Ours are without start too, but with planning, keys, ledger and
noise where there are any; `processor_s` is the busiest party's. Runs of both take turns. Malicious protocols stand
beside ours with proofs.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.machine import describe_machine
from bench.peers.environment import UNAVAILABLE, PeerRunError, PeerUnavailableError, run_to_its_end

PRIME = 2**61 - 1
N_PARTIES = 3
TIMEOUT_S = 900.0
BOUND = 1 << 12
BLOCK_COLUMNS = 10
"""Of the triangle: the product of so many columns with themselves and all that follow is one instruction."""

PROTOCOLS = {
    "atlas": "atlas-party.x",
    "shamir": "shamir-party.x",
    "rep-field": "replicated-field-party.x",
    "mal-shamir": "malicious-shamir-party.x",
    "sy-shamir": "sy-shamir-party.x",
}
"""Scripts of MP-SPDZ, and the program that each runs."""

WAYS = {"": ["-P", str(PRIME)], " by edaBits": ["-F", "64", "-Y"]}
"""How MP-SPDZ compares: by masks of bits as we do, or by bits shared in another field."""

GRAM = """\
rows, columns, parties, block = map(int, program.args[1:5])
widths = [columns // parties + (party < columns % parties) for party in range(parties)]
x = sint.Matrix(columns, rows)  # transposed: each column lies in one piece
start_timer(2)
first = 0
for party, width in enumerate(widths):
    x.get_part(first, width).input_from(party)
    first += width
start_timer(1)
opened = []
for start in range(0, columns, block):
    height = min(block, columns - start)
    products = x.get_part(start, height).direct_mul_trans(x.get_part(start, columns - start))
    opened.append(products.reveal())
stop_timer(1)
stop_timer(2)
print_ln('CORNERS %s %s', opened[0][0], opened[-1][len(opened[-1]) - 1])
"""

PRODUCTS = """\
size = int(program.args[1])
x, y = sint.Array(size), sint.Array(size)
start_timer(2)
x.input_from(0)
y.input_from(1)
start_timer(1)
z = x[:] * y[:]
stop_timer(1)
stop_timer(2)
print_ln('CORNERS %s %s', z[0].reveal(), z[size - 1].reveal())
"""

LESS = """\
size = int(program.args[1])
x, y = sint.Array(size), sint.Array(size)
start_timer(2)
x.input_from(0)
y.input_from(1)
start_timer(1)
z = x.get_vector().less_than(y.get_vector(), 20)
stop_timer(1)
stop_timer(2)
print_ln('CORNERS %s %s', z[0].reveal(), sum(z).reveal())
"""


class WrongResultError(RuntimeError):
    """MP-SPDZ computed something else than NumPy."""


@dataclass(frozen=True)
class Built:
    """A checkout in which something is built that can be run.

    Raises:
        PeerUnavailableError: there is no such folder, or something in it is missing; the text says what.
    """

    source: Path

    def __post_init__(self) -> None:
        if not self.source.is_dir():
            raise PeerUnavailableError(f"there is no folder {self.source}: give a checkout of MP-SPDZ with --source")
        missing = [name for name in ("compile.py", "Programs/Source") if not (self.source / name).exists()]
        if missing or not self.protocols:
            programs = " ".join(PROTOCOLS.values())
            lacks = ", ".join(missing) or f"any of {programs}"
            raise PeerUnavailableError(f"{self.source} lacks {lacks}: build it first (make -j2 {programs})")

    @property
    def protocols(self) -> list[str]:
        """The scripts whose programs are built."""
        return [name for name, program in PROTOCOLS.items() if (self.source / program).exists()]

    def compile(self, name: str, text: str, arguments: Sequence[int], way: Sequence[str] = WAYS[""]) -> str:
        """Write a program, compile it for these arguments, and return the name under which it runs."""
        (self.source / "Programs" / "Source" / f"{name}.mpc").write_text(text)
        words = [name, *map(str, arguments)]
        self._run([sys.executable, "compile.py", *way, *words])
        return "-".join(words)

    def bring(self, inputs: Sequence[NDArray[np.int64]]) -> None:
        """Write what each party brings, in the order in which the program reads it."""
        folder = self.source / "Player-Data"
        folder.mkdir(exist_ok=True)
        for party, values in enumerate(inputs):
            (folder / f"Input-P{party}-0").write_text(" ".join(map(str, values.reshape(-1).tolist())) + "\n")

    def run(self, protocol: str, program: str) -> str:
        """Run a compiled program among three parties, and return what they print."""
        return self._run([f"Scripts/{protocol}.sh", program, "-v"])

    def _run(self, command: Sequence[str]) -> str:
        there = ["env", "-C", str(self.source), f"PLAYERS={N_PARTIES}", *command]
        return run_to_its_end(there, TIMEOUT_S)


def read_output(text: str, expected: tuple[int, int]) -> dict[str, float]:
    """Return seconds and megabytes of one run from what the first party prints.

    Raises:
        PeerRunError: it printed no time, traffic or result.
        WrongResultError: the first or the last entry of the result is wrong.
    """
    patterns = {
        "product_s": r"Time1 = ([0-9.e+-]+) seconds",
        "all_s": r"Time2 = ([0-9.e+-]+) seconds",
        "processor_s": r"^CPU time = ([0-9.e+-]+)",
        "sent_mb": r"^Data sent = ([0-9.e+-]+) MB",
        "corners": r"^CORNERS (-?\d+ -?\d+)",
    }
    found = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in patterns.items()}
    absent = [name for name, match in found.items() if match is None]
    if absent:
        raise PeerRunError(f"MP-SPDZ printed nothing of {', '.join(absent)}:\n{text[-2000:]}")
    values = {name: match.group(1) for name, match in found.items() if match is not None}
    corners = tuple(int(value) % PRIME for value in values.pop("corners").split())
    if corners != tuple(value % PRIME for value in expected):
        raise WrongResultError("MP-SPDZ computed another result than NumPy")
    return {name: float(value) for name, value in values.items()}


def gram_inputs(rows: int, columns: int) -> tuple[list[NDArray[np.int64]], tuple[int, int]]:
    """Return the columns of each party, one after the other, and the corners of the product of all."""
    table = np.random.default_rng(1).integers(-BOUND, BOUND + 1, (rows, columns))
    parts = [part.T for part in np.array_split(table, N_PARTIES, axis=1)]
    return parts, (int(table[:, 0] @ table[:, 0]), int(table[:, -1] @ table[:, -1]))


def product_inputs(elements: int) -> tuple[list[NDArray[np.int64]], tuple[int, int]]:
    """Return two factors, and the first and the last of their products."""
    x, y = np.random.default_rng(2).integers(-(1 << 29), 1 << 29, (2, elements))
    return [x, y], (int(x[0] * y[0]), int(x[-1] * y[-1]))


def run_ours(module: str, *options: str) -> dict[str, Any]:
    """Return the report of one of our own measurements."""
    command = [sys.executable, "-m", module, *options]
    if module == "bench.jobs.gram":
        command += ["--format", "json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def measure(built: Built, options: argparse.Namespace) -> dict[str, Any]:
    """Run each program with each protocol, `repeats` times, each time followed by ours."""
    table = ["--rows", str(options.rows), "--columns", str(options.columns), "--parties", str(N_PARTIES)]
    gram = ("bench.jobs.gram", *table, "--repeats", "3")
    circuit = ("bench.protocols.comparisons", "--parties", str(N_PARTIES), "--operation")
    products, compared = (*circuit, "multiply", "--elements"), (*circuit, "less", "--elements")
    n_products, n_compared = str(options.elements), str(options.compared)
    rows = [options.rows, options.columns, N_PARTIES, BLOCK_COLUMNS]
    tasks = {
        "gram": (GRAM, rows, gram_inputs(*rows[:2]), {"moiety": gram}),
        "products": (
            PRODUCTS,
            [options.elements],
            product_inputs(options.elements),
            _with_proofs(products, n_products),
        ),
        "less": (LESS, [options.compared], compared_inputs(options.compared), _with_proofs(compared, n_compared)),
    }
    report: dict[str, Any] = {}
    for task in options.task or tasks:
        text, arguments, (inputs, corners), ours = tasks[task]
        runs: dict[str, list[dict[str, float]]] = {}
        for _ in range(options.repeats):
            for way, words in WAYS.items() if task == "less" else [("", WAYS[""])]:
                program = built.compile(f"moiety_{task}", text, arguments, words)
                built.bring(inputs)
                for protocol in built.protocols:
                    run = read_output(built.run(protocol, program), corners)
                    runs.setdefault(f"{protocol}{way}", []).append(run)
            for name, command in ours.items():
                own = run_ours(*command)
                figures = {"product_s": own["seconds"], "processor_s": own.get("processor_s", float("nan"))}
                runs.setdefault(name, []).append(figures)
        report[task] = {
            name: {key: statistics.median(run[key] for run in each) for key in each[0]} for name, each in runs.items()
        }
    return report


def _with_proofs(command: tuple[str, ...], elements: str) -> dict[str, tuple[str, ...]]:
    return {"moiety": (*command, elements), "moiety, malicious": (*command, elements, "--proven")}


def compared_inputs(elements: int) -> tuple[list[NDArray[np.int64]], tuple[int, int]]:
    """Return integers of 20 bits to be compared, the first answer, and how many are smaller."""
    x, y = np.random.default_rng(3).integers(0, 1 << 20, (2, elements))
    return [x, y], (int(x[0] < y[0]), int((x < y).sum()))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a checkout of MP-SPDZ, built")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--compared", type=int, default=100_000)
    parser.add_argument("--task", action="append", choices=("gram", "products", "less"), help="default: all")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    try:
        built = Built(options.source)
    except PeerUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(UNAVAILABLE)
    measured = measure(built, options)
    report = {"bench": "mp_spdz", "parties": N_PARTIES, **measured, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
