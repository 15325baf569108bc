"""Nanoseconds of each compiled loop for one word of three residues, in the caches, one thread.

    python -m bench.protocols.kernels [--words 8192] [--repeats 50] [--processor haswell] [--format text|json]

--processor compiles for another processor than this one, by LLVM's name of it, in a cache of its own: what a kernel
costs with AVX2 alone (haswell, znver3) can be seen on a machine that has AVX-512.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.machine import describe_machine

CALLS = 50
"""Calls that are timed together."""


def measure(n_words: int, repeats: int) -> list[dict[str, Any]]:
    """Return the fewest nanoseconds per word of each kernel; they take turns."""
    from mpc.arithmetic import kernels
    from mpc.arithmetic.moduli import PRIMES, words_of

    constants = words_of(PRIMES[:3])[0]
    primes, inverses, largest = constants.primes, constants.inverses, np.uint64(constants.order // 2)
    rng = np.random.default_rng(1)

    def words() -> Any:
        first, second, third = (rng.integers(0, int(p), n_words, dtype=np.uint64) for p in primes)
        return first | second << np.uint64(21) | third << np.uint64(42)

    a, b, out, weights = words(), words(), words(), primes - np.uint64(1)
    values, places = rng.integers(-(1 << 40), 1 << 40, n_words), np.empty(n_words, dtype=np.int64)
    rows, panel = a[: n_words // 32 * 32].reshape(-1, 32), np.empty((3, n_words // 32, 32))
    sums = rng.integers(-(1 << 52), 1 << 52, n_words).astype(np.float64)
    calls: dict[str, Callable[[], object]] = {
        "multiply": lambda: kernels.multiply(out, a, b, primes, inverses),
        "scale": lambda: kernels.scale(out, a, weights, primes, inverses),
        "combine": lambda: kernels.combine(out, a, weights, b, weights, primes, inverses),
        "accumulate_scaled": lambda: kernels.accumulate_scaled(out, b, weights, primes, inverses),
        "encode": lambda: kernels.encode(out, values, constants.mask, primes, inverses),
        "from_residues": lambda: kernels.from_residues(
            out, a, constants.garner, primes, inverses, largest, np.uint64(constants.order)
        ),
        "unpack_balanced": lambda: kernels.unpack_balanced(panel, 0, rows, primes),
        "reduce_balanced": lambda: kernels.reduce_balanced(sums, float(primes[0]), inverses[0]),
        "add": lambda: kernels.add(out, a, b, primes),
        "subtract": lambda: kernels.subtract(out, a, b, primes),
        "count_out_of_range": lambda: kernels.count_out_of_range(a, primes),
        "mask_and_reject": lambda: kernels.mask_and_reject(a, constants.mask, primes, places),
    }
    fewest = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            started_ns = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            fewest[name] = min(fewest[name], (time.perf_counter_ns() - started_ns) / (CALLS * n_words))
    return [{"kernel": name, "ns_per_word": ns} for name, ns in fewest.items()]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--processor", help="compile for it, by LLVM's name")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    if options.processor:
        with tempfile.TemporaryDirectory(prefix="moiety-kernels-") as cache:
            told = {"NUMBA_CPU_NAME": options.processor, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": cache}
            same = ["--words", str(options.words), "--repeats", str(options.repeats), "--format", options.format]
            command = [sys.executable, "-m", "bench.protocols.kernels", *same]
            return subprocess.run(command, env={**os.environ, **told}, check=False).returncode
    rows = measure(options.words, options.repeats)
    if options.format == "json":
        print(json.dumps({"bench": "kernels", "machine": describe_machine(), "kernels": rows}, indent=2))
        return 0
    for row in rows:
        print(f"{row['kernel']:<20} {row['ns_per_word']:7.3f} ns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
