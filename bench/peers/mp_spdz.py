"""A Gram matrix and element-wise products with MP-SPDZ among three parties on this machine, beside ours.

    python -m bench.peers.mp_spdz --source DIR [--rows 10000] [--columns 100] [--elements 1000000] [--repeats 3]

DIR is a checkout of MP-SPDZ in which its programs are built: `apt install
libboost-{dev,thread-dev,filesystem-dev,iostreams-dev} libsodium-dev libgmp-dev libssl-dev clang`; simde, SimpleOT and
SimplestOT_C in `deps/`; `USE_KOS = 1` in `CONFIG.mine`; then `make -j2 shamir-party.x atlas-party.x
replicated-field-party.x`, which takes half an hour. This script writes two programs into its `Programs/Source` and
inputs into its `Player-Data`, compiles and runs them, and prints JSON.

Its seconds are those of its own timers, without start and handshake: `product_s` from when all inputs are shared until
the result is open (Gram) or shared (products), `all_s` with the inputs, which its parties read as text. Ours are
without start too, but with planning, keys, ledger and noise where there are any. Runs of both take turns.

**This script was not run with MP-SPDZ in this version:** its source was not to be had on the machine where the script
was written. Programs, options and the form of the output follow MP-SPDZ's documentation, and may need correcting.
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

PROTOCOLS = {"atlas": "atlas-party.x", "shamir": "shamir-party.x", "rep-field": "replicated-field-party.x"}
"""Scripts of MP-SPDZ, and the program that each runs."""

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


class WrongResultError(RuntimeError):
    """MP-SPDZ computed something else than NumPy."""


@dataclass(frozen=True)
class Built:
    """A checkout in which everything is built that is run.

    Raises:
        PeerUnavailableError: there is no such folder, or something in it is missing; the text says what.
    """

    source: Path

    def __post_init__(self) -> None:
        if not self.source.is_dir():
            raise PeerUnavailableError(f"there is no folder {self.source}: give a checkout of MP-SPDZ with --source")
        needed = ["compile.py", "Programs/Source", *PROTOCOLS.values(), *(f"Scripts/{name}.sh" for name in PROTOCOLS)]
        missing = [name for name in needed if not (self.source / name).exists()]
        if missing:
            programs = " ".join(PROTOCOLS.values())
            raise PeerUnavailableError(
                f"{self.source} has no {', '.join(missing)}: build it first (make -j2 {programs})"
            )

    def compile(self, name: str, text: str, arguments: Sequence[int]) -> str:
        """Write a program, compile it for these arguments, and return the name under which it runs."""
        (self.source / "Programs" / "Source" / f"{name}.mpc").write_text(text)
        words = [name, *map(str, arguments)]
        self._run([sys.executable, "compile.py", "-P", str(PRIME), *words])
        return "-".join(words)

    def bring(self, inputs: Sequence[NDArray[np.int64]]) -> None:
        """Write what each party brings, in the order in which the program reads it."""
        folder = self.source / "Player-Data"
        folder.mkdir(exist_ok=True)
        for party, values in enumerate(inputs):
            (folder / f"Input-P{party}-0").write_text(" ".join(map(str, values.reshape(-1).tolist())) + "\n")

    def run(self, protocol: str, program: str) -> str:
        """Run a compiled program among three parties, and return what they print."""
        return self._run([f"Scripts/{protocol}.sh", program])

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
    command = [sys.executable, "-m", module, *options, "--format", "json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def measure(built: Built, rows: int, columns: int, elements: int, repeats: int) -> dict[str, Any]:
    """Run each program with each protocol, `repeats` times, each time followed by ours."""
    gram_arguments = [rows, columns, N_PARTIES, BLOCK_COLUMNS]
    table = ["--rows", str(rows), "--columns", str(columns), "--parties", str(N_PARTIES), "--repeats", "3"]
    tasks = {
        "gram": ("moiety_gram", GRAM, gram_arguments, gram_inputs(rows, columns), ("bench.jobs.gram", *table)),
        "products": (
            "moiety_products",
            PRODUCTS,
            [elements],
            product_inputs(elements),
            ("bench.protocols.products", "--elements", str(elements), "--parties", str(N_PARTIES)),
        ),
    }
    report: dict[str, Any] = {}
    for task, (name, text, arguments, (inputs, corners), ours) in tasks.items():
        program = built.compile(name, text, arguments)
        built.bring(inputs)
        theirs: dict[str, list[dict[str, float]]] = {protocol: [] for protocol in PROTOCOLS}
        seconds = []
        for _ in range(repeats):
            for protocol, runs in theirs.items():
                runs.append(read_output(built.run(protocol, program), corners))
            seconds.append(run_ours(*ours)["seconds"])
        medians = {
            protocol: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            for protocol, runs in theirs.items()
        }
        report[task] = {"moiety_s": statistics.median(seconds), "mp_spdz": medians}
    return report


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="a checkout of MP-SPDZ, built")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    try:
        built = Built(options.source)
    except PeerUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(UNAVAILABLE)
    measured = measure(built, options.rows, options.columns, options.elements, options.repeats)
    report = {"bench": "mp_spdz", "parties": N_PARTIES, **measured, "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
