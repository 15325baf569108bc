"""One party of `bench.protocols.comparisons`: shares an array, compares it with another's, checks the answers.

Prints one JSON object: seconds of each run, processor seconds of this process, bytes that this party sent for it.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mpc.arithmetic.field import ResidueField
from mpc.protocol.computation import Computation
from mpc.protocol.shared import SharedArray
from transport.messages.mesh import MeshConfig, join_mesh

LARGEST = (1 << 20) - 1


def operand(dealer: int, n_elements: int) -> np.ndarray:
    """Return what a party brings; all know it, to check the answers. A third of all pairs are equal."""
    own = np.random.default_rng(dealer).integers(0, LARGEST + 1, n_elements)
    return np.where(np.arange(n_elements) % 3, own, np.random.default_rng(0).integers(0, LARGEST + 1, n_elements))


async def _less(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.less(x, y, bound=LARGEST)


async def _equal(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.equal(x, y, bound=LARGEST)


async def _equal_by_power(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    """Return 1 - (x - y)^(p - 1) in a field of one prime: the rival of `equal` [Fermat's little theorem]."""
    (prime,) = c.field.primes
    base = replace(x - y, bound=None)
    power = base
    for digit in bin(prime - 1)[3:]:
        power = await c.multiply(power, power)
        if digit == "1":
            power = await c.multiply(power, base)
    return replace(1 - power, bound=1)


OPERATIONS: dict[str, tuple[Callable[[Computation, SharedArray, SharedArray], Awaitable[SharedArray]], Any]] = {
    "less": (_less, np.less),
    "equal": (_equal, np.equal),
    "equal-by-power": (_equal_by_power, np.equal),
}


async def measure(config: MeshConfig, operation: str, n_elements: int, t: int, repeats: int) -> dict[str, Any]:
    everybody = tuple(config.names)
    call, exact = OPERATIONS[operation]
    field = ResidueField(1 if operation == "equal-by-power" else 3)
    async with join_mesh(config, program=f"{operation} {n_elements} {t} {repeats}") as session:
        c = await Computation.start(session, field, len(everybody), t)
        mine = operand(c.me, n_elements) - (LARGEST // 2) if c.me <= 2 else None
        arrays = await c.inputs({1: (n_elements,), 2: (n_elements,)}, mine, bound=LARGEST // 2 + 1)
        seconds, processor_s, sent_bytes = [], [], []
        for _ in range(repeats):
            await c.open(arrays[1][:1], everybody)  # all are ready
            sent_before = sum(session.bytes_sent.values())
            started_s, worked_s = time.perf_counter(), time.process_time()
            answers = await call(c, arrays[1], arrays[2])
            seconds.append(time.perf_counter() - started_s)
            processor_s.append(time.process_time() - worked_s)
            sent_bytes.append(sum(session.bytes_sent.values()) - sent_before)
        opened = await c.open(answers, everybody)
    assert opened is not None, "everybody receives"
    if not np.array_equal(opened.values, exact(operand(1, n_elements), operand(2, n_elements))):
        raise RuntimeError("an answer is wrong")
    return {"seconds": seconds, "processor_s": processor_s, "sent_bytes": sent_bytes[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--operation", choices=OPERATIONS, required=True)
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--colluding", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    options = parser.parse_args()
    config = MeshConfig.load(options.config)
    measured = measure(config, options.operation, options.elements, options.colluding, options.repeats)
    print(json.dumps(asyncio.run(measured)))


if __name__ == "__main__":
    main()
