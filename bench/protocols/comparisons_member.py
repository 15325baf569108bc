"""One party of `bench.protocols.comparisons`: shares an array, computes on it and another's, checks the answers.

Prints one JSON object: seconds of each run, processor seconds of this process, bytes that this party sent for it.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from mpc.arithmetic.field import ResidueField
from mpc.proofs.products import ProvenComputation
from mpc.protocol.computation import Computation
from mpc.protocol.operations.functions import weighted
from mpc.protocol.shared import SharedArray
from transport.messages.mesh import MeshConfig, join_mesh

LARGEST = (1 << 20) - 1

SCALE = 10
"""Bits of fractions."""


def operand(dealer: int, n_elements: int) -> np.ndarray:
    """Return what a party brings; all know it, to check the answers. A third of all pairs are equal."""
    own = np.random.default_rng(dealer).integers(0, LARGEST + 1, n_elements)
    return np.where(np.arange(n_elements) % 3, own, np.random.default_rng(0).integers(0, LARGEST + 1, n_elements))


async def _multiply(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.multiply(x, y)


async def _less(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.less(x, y, bound=LARGEST)


async def _equal(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.equal(x, y, bound=LARGEST)


async def _equal_by_power(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    """Return 1 - (x - y)^(p - 1) in a field of one prime: the rival of `equal` [Fermat's little theorem]."""
    return await c.equal(replace(x, bound=None), replace(y, bound=None))


async def _reciprocal(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.reciprocal(_positive(x), SCALE)


async def _reciprocal_by_newton(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    """Return 1 / x by Newton's iteration w (2 - m w) on mantissas: the rival of `reciprocal` [CdS10]."""
    mantissa, places = await c._taken_apart(_positive(x))
    inner = 22
    m = replace(mantissa * 4, bound=1 << inner)
    w = round(2.9142 * (1 << inner)) - 2 * m
    for _ in range(3):  # from an error of 0.09 to its eighth power
        product = await c.multiply_fixed(m, w, inner)
        w = replace(await c.multiply_fixed(w, (2 << inner) - product, inner), bound=2 << inner)
    constants = [1 << 2 * SCALE - 1 - i for i in range(places.shape[0])]
    return await c.truncate(w * weighted(places, constants), inner)


async def _sort(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.sort(x, bound=LARGEST)


async def _product(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.matmul(_square(x), _square(y))


async def _fixed_product(c: Computation, x: SharedArray, y: SharedArray) -> SharedArray:
    return await c.matmul_fixed(_square(x), _square(y), SCALE)


def _positive(x: SharedArray) -> SharedArray:
    return replace(x + LARGEST // 2, bound=LARGEST)


def _square(x: Any) -> Any:
    side = isqrt(x.size)
    return x.reshape(side, side)


def _reciprocals(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    positive = x + LARGEST // 2
    return np.where(positive == 0, 0, (1 << 2 * SCALE) / np.maximum(positive, 1))


@dataclass(frozen=True)
class Operation:
    """What is measured.

    Attributes:
        call: what all parties do.
        exact: the answer, of NumPy.
        n_primes: primes of the field.
        error: an answer is off by less.
    """

    call: Callable[[Computation, SharedArray, SharedArray], Awaitable[SharedArray]]
    exact: Callable[[Any, Any], Any]
    n_primes: int = 3
    error: float = 0.5


OPERATIONS = {
    "multiply": Operation(_multiply, np.multiply),
    "less": Operation(_less, np.less),
    "equal": Operation(_equal, np.equal),
    "equal-by-power": Operation(_equal_by_power, np.equal, 1),
    "reciprocal": Operation(_reciprocal, _reciprocals, 6, 3),
    "reciprocal-by-newton": Operation(_reciprocal_by_newton, _reciprocals, 6, 4),
    "sort": Operation(_sort, lambda x, y: np.sort(x)),
    "matrix-product": Operation(_product, lambda x, y: _square(x) @ _square(y)),
    "matrix-product-wide": Operation(_product, lambda x, y: _square(x) @ _square(y), 5),
    "matrix-product-fixed": Operation(_fixed_product, lambda x, y: _square(x) @ _square(y) / (1 << SCALE), 5, 1.5),
}


async def measure(
    config: MeshConfig, name: str, n_elements: int, t: int, repeats: int, kind: type[Computation]
) -> dict[str, Any]:
    everybody = tuple(config.names)
    operation = OPERATIONS[name]
    async with join_mesh(config, program=f"{name} {n_elements} {t} {repeats}") as session:
        c = await kind.start(session, ResidueField(operation.n_primes), len(everybody), t)
        brought = [operand(dealer, n_elements) - LARGEST // 2 for dealer in (1, 2)]
        mine = brought[c.me - 1] if c.me <= 2 else None
        arrays = await c.inputs({1: (n_elements,), 2: (n_elements,)}, mine, bound=LARGEST // 2 + 1)
        seconds, processor_s, sent_bytes = [], [], []
        for _ in range(repeats):
            await c.open(arrays[1][:1], everybody)  # all are ready
            sent_before = sum(session.bytes_sent.values())
            started_s, worked_s = time.perf_counter(), time.process_time()
            answers = await operation.call(c, arrays[1], arrays[2])
            await c.check_products()  # a proof is due before anything is opened
            seconds.append(time.perf_counter() - started_s)
            processor_s.append(time.process_time() - worked_s)
            sent_bytes.append(sum(session.bytes_sent.values()) - sent_before)
        opened = await c.open(answers, everybody)
    assert opened is not None, "everybody receives"
    off = np.abs(opened.values.astype(np.float64) - np.asarray(operation.exact(*brought), dtype=np.float64))
    if off.max() >= operation.error:
        raise RuntimeError(f"an answer is off by {off.max():g}")
    return {"seconds": seconds, "processor_s": processor_s, "sent_bytes": sent_bytes[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--operation", choices=OPERATIONS, required=True)
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--colluding", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--proven", action="store_true", help="prove bits and products, as where members may deviate")
    options = parser.parse_args()
    config = MeshConfig.load(options.config)
    kind = ProvenComputation if options.proven else Computation
    measured = measure(config, options.operation, options.elements, options.colluding, options.repeats, kind)
    print(json.dumps(asyncio.run(measured)))


if __name__ == "__main__":
    main()
