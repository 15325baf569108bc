"""The local product X^T X of packed shares against float64 BLAS on the same shape, one thread, in one run.

python -m bench.protocols.local_gram [--shape 10000x100 ...] [--primes 3] [--repeats 15] [--galois] [--format text|json]
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy.linalg.blas import dsyrk

from bench.machine import describe_machine
from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.gram import GramAccumulator, upper_triangle_indices

BLOCK_ROWS = 4096
N_DEALERS = 3
MAX_GALOIS_ELEMENTS = 2_000_000
"""Elements; its products of a larger matrix take minutes, so it gets the first rows of one, and the page says so."""


def medians_s(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Return the median seconds of each, run in turns so that a busy machine slows all of them alike."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, taken in zip(works, times, strict=True):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def measure(n_rows: int, n_columns: int, n_primes: int, repeats: int, *, with_galois: bool) -> dict[str, Any]:
    """Measure one shape; the shares of `N_DEALERS` dealers, random, are packed as they come from the network."""
    field = ResidueField(n_primes)
    stream = KeyStream(InsecureTestEntropy("local gram").read(32))
    blocks = [field.random(stream, (n_rows, len(part))) for part in np.array_split(np.arange(n_columns), N_DEALERS)]
    floats = np.random.default_rng(1).standard_normal((n_rows, n_columns))

    def from_packed_words() -> None:
        accumulator = GramAccumulator(field, n_columns)
        for start in range(0, n_rows, BLOCK_ROWS):
            accumulator.add_rows([block[:, start : start + BLOCK_ROWS] for block in blocks])
        accumulator.upper_triangle()

    gram_s, float64_s, dsyrk_s = medians_s(
        [from_packed_words, lambda: floats.T @ floats, lambda: dsyrk(1.0, floats.T)], repeats
    )
    galois_rows = min(n_rows, MAX_GALOIS_ELEMENTS // n_columns)
    galois_s = _galois_s(field, [block[:, :galois_rows] for block in blocks]) if with_galois else None
    return {
        "rows": n_rows,
        "columns": n_columns,
        "primes": n_primes,
        "gram_ms": 1e3 * gram_s,
        "float64_ms": 1e3 * float64_s,
        "float64_dsyrk_ms": 1e3 * dsyrk_s,
        "ratio_to_float64": gram_s / float64_s,
        "ratio_to_dsyrk": gram_s / dsyrk_s,
        "galois_ms": None if galois_s is None else 1e3 * galois_s,
        "galois_rows": galois_rows,
    }


def _galois_s(field: ResidueField, blocks: Sequence[np.ndarray]) -> float:
    """Return the seconds of the same product with compiled `galois` arrays, one per prime, run once.

    Raises:
        RuntimeError: ours is another matrix.
    """
    import galois

    residues = [np.hstack(parts) for parts in zip(*(field.residues(block) for block in blocks), strict=True)]
    arrays = [galois.GF(p)(values) for p, values in zip(field.primes, residues, strict=True)]
    for array in arrays:
        array[:8].T @ array[:8]  # compiles
    start = time.perf_counter()
    squares = [array.T @ array for array in arrays]
    seconds = time.perf_counter() - start
    accumulator = GramAccumulator(field, arrays[0].shape[1])
    accumulator.add_rows(blocks)
    triangle = field.residues(accumulator.upper_triangle())
    rows, columns = upper_triangle_indices(arrays[0].shape[1])
    if not all(np.array_equal(np.asarray(s)[rows, columns], t) for s, t in zip(squares, triangle, strict=True)):
        raise RuntimeError("galois computed another product than ours")
    return seconds


def shape(text: str) -> tuple[int, int]:
    """Read ROWSxCOLUMNS."""
    rows, columns = text.split("x")
    return int(rows), int(columns)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=shape, nargs="+", default=[(10_000, 100), (145_586, 118), (10_000, 30)])
    parser.add_argument("--primes", type=int, default=3, help="1 to 6: 21 bits each")
    parser.add_argument("--galois", action="store_true", help="also the same product with galois arrays, once")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    measured = [
        measure(rows, columns, options.primes, options.repeats, with_galois=options.galois)
        for rows, columns in options.shape
    ]
    if options.format == "json":
        print(json.dumps({"machine": describe_machine(), "local_gram": measured}, indent=2))
        return 0
    for row in measured:
        print(
            f"{row['rows']:>7} x {row['columns']:<4} {row['primes']} primes: {row['gram_ms']:8.2f} ms, "
            f"float64 X.T @ X {row['float64_ms']:7.2f} ms, ratio {row['ratio_to_float64']:.2f}"
            + ("" if row["galois_ms"] is None else f", galois {row['galois_ms']:.0f} ms of {row['galois_rows']} rows")
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
