"""One party of `bench.protocols.secret_matching`: matches its ids under shares, shares its rows, masks and checks them.

Prints one JSON object.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import peak_resident_bytes
from bench.protocols.matching_member import ids_of, resident_bytes
from mpc.arithmetic.field import ResidueField
from mpc.matching.secret import match_secretly
from mpc.matching.secret_terms import SecretTerms
from mpc.protocol.computation import Computation
from mpc.protocol.shared import SharedArray
from transport.messages.mesh import MeshConfig, join_mesh

HEIGHT = 4096
LARGEST = 1 << 20
"""Bound of the integers in the rows."""


async def measure(config: MeshConfig, most_rows: list[int], n_columns: int, n_primes: int) -> dict[str, Any]:
    owners = tuple(range(1, len(config.names) + 1))
    sizes = dict(zip(owners, most_rows, strict=True))
    async with join_mesh(config, program=f"secret matching {most_rows} {n_columns} {n_primes}") as session:
        field = ResidueField(n_primes)
        ids, common = ids_of(session.me, sizes[session.me], min(most_rows) // 2)
        rows = np.random.default_rng(session.me).integers(-LARGEST, LARGEST, (sizes[session.me], n_columns))
        c = await Computation.start(session, field, len(owners), 1)
        resident_before, sent_before = resident_bytes(), sum(session.bytes_sent.values())
        started_s, processor_before_s = time.perf_counter(), time.process_time()
        match = await match_secretly(c, SecretTerms(owners, sizes, len(owners)), ids)
        matched_s, matched_processor_s = time.perf_counter() - started_s, time.process_time() - processor_before_s
        shared = await match.share_rows(dict.fromkeys(owners, n_columns), rows.__getitem__, height=HEIGHT)
        total: SharedArray | None = None
        async for _, block in match.masked(shared, height=HEIGHT):
            summed = block.sum(0)
            total = summed if total is None else total + summed
        seconds, processor_s = time.perf_counter() - started_s, time.process_time() - processor_before_s
        sent, peak = sum(session.bytes_sent.values()) - sent_before, peak_resident_bytes("self")
        assert total is not None, "there are slots"
        mine = slice((session.me - 1) * n_columns, session.me * n_columns)
        bounded = SharedArray(field, total.shape, total.degree, field.half_order, total.share)
        sums = await c.open(bounded, receivers=owners)
        number = await c.open(match.matched.sum().reshape(1), receivers=owners)
    if sums is None or number is None or number.values.tolist() != [len(common)]:
        raise RuntimeError("the number of matched rows is wrong")
    if not np.array_equal(sums.values[mine], rows[common].sum(axis=0)):
        raise RuntimeError("the sums of the matched rows are wrong")
    return {
        "slots": match.n_slots,
        "matched": len(common),
        "seconds": seconds,
        "seconds_to_match": matched_s,
        "processor_s": processor_s,
        "processor_to_match_s": matched_processor_s,
        "sent_bytes": sent,
        "peak_resident_bytes": peak,
        "added_bytes": peak - resident_before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", required=True, help="of each party")
    parser.add_argument("--columns", type=int, required=True)
    parser.add_argument("--primes", type=int, required=True)
    options = parser.parse_args()
    found = asyncio.run(measure(MeshConfig.load(options.config), options.rows, options.columns, options.primes))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
