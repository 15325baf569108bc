"""One party of `bench.protocols.matching`: measures one exponentiation, matches its ids, checks the rows.

Prints one JSON object.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.machine import peak_resident_bytes
from entropy import SystemEntropy
from mpc.matching.group import Scalar, hash_to_points
from mpc.matching.revealed import match_revealed
from mpc.protocol.exchange import agree_pairwise_secrets, confirm_pairwise_secrets
from transport.messages.mesh import MeshConfig, join_mesh

N_MEASURED = 20_000


def ids_of(party: int, n_ids: int, n_common: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return a party's ids in an order of its own, and where those stand that all have."""
    generator = np.random.default_rng(party)
    ids = generator.integers(0, 256, (n_ids, 32), dtype=np.uint8)
    common = generator.permutation(n_ids)[:n_common].copy()
    ids[common] = np.random.default_rng(0).integers(0, 256, (n_common, 32), dtype=np.uint8)
    return ids, common


def microseconds_each(work: Callable[[Any], Any], items: Any) -> float:
    started_s = time.process_time()
    work(items)
    return (time.process_time() - started_s) / len(items) * 1e6


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def measure(config: MeshConfig, n_ids: int, *, strict: bool) -> dict[str, Any]:
    owners = range(1, len(config.names) + 1)
    async with join_mesh(config, program=f"matching {n_ids}") as session:
        secrets = await agree_pairwise_secrets(session, owners, len(owners))
        key, messages = Scalar.draw(SystemEntropy()), [b"%d" % number for number in range(N_MEASURED)]
        points = hash_to_points(messages, b"measured")
        hash_us = microseconds_each(lambda some: hash_to_points(some, b"measured"), messages)
        exponentiation_us = microseconds_each(key.multiply, points)
        ids, common = ids_of(session.me, n_ids, n_ids // 2)
        resident_before = resident_bytes()
        await confirm_pairwise_secrets(session, secrets)  # all are ready
        multiply = Scalar.multiply
        in_match_s = []

        def timed(scalar: Scalar, some: NDArray[np.uint8]) -> NDArray[np.uint8]:
            before_s = time.thread_time()
            product = multiply(scalar, some)
            in_match_s.append(time.thread_time() - before_s)
            return product

        Scalar.multiply = timed  # type: ignore[method-assign]
        sent_before, started_s, processor_before_s = dict(session.bytes_sent), time.perf_counter(), time.process_time()
        rows = await match_revealed(session, owners, ids, dict.fromkeys(owners, n_ids), secrets, strict=strict)
        seconds, processor_s = time.perf_counter() - started_s, time.process_time() - processor_before_s
        sent = sum(session.bytes_sent.values()) - sum(sent_before.values())
        peak = peak_resident_bytes("self")
        Scalar.multiply = multiply  # type: ignore[method-assign]
        exponentiation_us = (exponentiation_us + microseconds_each(key.multiply, points)) / 2
    if rows is None or not np.array_equal(np.sort(rows), np.sort(common)):
        raise RuntimeError("the match is wrong")
    return {
        "matched": len(rows),
        "seconds": seconds,
        "processor_s": processor_s,
        "exponentiation_us": exponentiation_us,
        "exponentiations_in_match_s": sum(in_match_s),
        "hash_us": hash_us,
        "sent_bytes": sent,
        "peak_resident_bytes": peak,
        "match_bytes": peak - resident_before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--ids", type=int, required=True)
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(MeshConfig.load(options.config), options.ids, strict=options.strict))))


if __name__ == "__main__":
    main()
