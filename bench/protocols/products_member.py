"""One party of `bench.protocols.products`: shares two arrays, multiplies them element by element, checks the result.

Prints one JSON object: seconds of each multiplication, bytes that this party sent for it, resident bytes on the way.
"""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import peak_resident_bytes
from bench.wire import bytes_by_socket, sent_between
from mpc.arithmetic.field import ResidueField
from mpc.protocol.computation import Computation
from transport.messages.mesh import MeshConfig, join_mesh

BOUND = 1 << 29


def operand(dealer: int, n_elements: int) -> np.ndarray:
    """Return what a party brings; all know it, to check the result."""
    return np.random.default_rng(dealer).integers(-BOUND, BOUND, n_elements)


async def measure(config: MeshConfig, n_elements: int, n_primes: int, t: int, repeats: int) -> dict[str, Any]:
    resident = {"imports": peak_resident_bytes("self")}
    everybody = tuple(config.names)
    async with join_mesh(config, program=f"products {n_elements} {n_primes} {t} {repeats}") as session:
        c = await Computation.start(session, ResidueField(n_primes), len(everybody), t)
        mine = operand(c.me, n_elements) if c.me <= 2 else None
        factors = await c.inputs({1: (n_elements,), 2: (n_elements,)}, mine, bound=BOUND)
        mine = None
        resident["inputs"] = peak_resident_bytes("self")
        seconds, sent_bytes, wire_bytes = [], [], []
        for _ in range(repeats):
            await c.open(factors[1][:1], everybody)  # all are ready
            wire_before = bytes_by_socket(os.getpid())
            sent_before = sum(session.bytes_sent.values())
            started_s = time.perf_counter()
            product = None  # what was computed before is not kept
            product = await c.multiply(factors[1], factors[2])
            seconds.append(time.perf_counter() - started_s)
            sent_bytes.append(sum(session.bytes_sent.values()) - sent_before)
            await c.open(product[:1], everybody)  # what was sent has left
            wire_bytes.append(sent_between(wire_before, bytes_by_socket(os.getpid())))
        resident["products"] = peak_resident_bytes("self")
        opened = await c.open(product, everybody)
    assert opened is not None
    expected = operand(1, n_elements) * operand(2, n_elements)
    if not np.array_equal(opened.values, expected):
        raise RuntimeError("the product is wrong")
    return {
        "seconds": seconds,
        "sent_bytes": sent_bytes[0],
        "wire_bytes": max(wire_bytes),
        "peak_resident_bytes": resident,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--primes", type=int, required=True)
    parser.add_argument("--colluding", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    options = parser.parse_args()
    config = MeshConfig.load(options.config)
    measured = measure(config, options.elements, options.primes, options.colluding, options.repeats)
    print(json.dumps(asyncio.run(measured)))


if __name__ == "__main__":
    main()
