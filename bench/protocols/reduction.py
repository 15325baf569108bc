"""Element-wise products by resharing [GRR98] and by double sharings [DN07]: bytes and processor time per product.

    python -m bench.protocols.reduction [--parties 3,5,7,9,11] [--elements 1000,10000,100000,1000000] [--repeats 3]
        [--proven] [--format text|json]

All parties run in one thread over the in-process network, with t = (N - 1) / 2, so the processor time of
the whole, divided by N, is that of one party without its sockets. The two ways take turns. The constants of
`mpc.protocol.double_sharing.double_sharings_win` are from here; docs/decisions/007 has the figures. To the processor
time come
the bytes and the rounds of the network that the rule assumes: the way with the lesser sum is the measured winner, and
stands beside what the rule chooses. With `--proven` a third way takes its turn: resharing with proofs of all products
(`mpc.proofs.products`).
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from bench.machine import describe_machine
from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.arithmetic.words import Words
from mpc.local.network import LocalNetwork, Message, local_names
from mpc.proofs.products import ProductProofs
from mpc.protocol.agreement import DealerAgreement
from mpc.protocol.double_sharing import (
    EXTRA_ROUNDS_S,
    LINK_NS_PER_BYTE,
    double_sharings_win,
    reduce_with_double_sharings,
)
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets
from mpc.protocol.product_check import ProductCheck
from mpc.protocol.reduction import reduce_degree
from mpc.protocol.session import Session

Multiply = Callable[[ShareExchange, Words, Words], Coroutine[Any, Any, Words]]


async def by_resharing(exchange: ShareExchange, x: Words, y: Words) -> Words:
    agreement = DealerAgreement(exchange, "bench")
    check = ProductCheck(exchange, agreement)
    field, n_elements, degree = exchange.field, x.shape[1], 2 * exchange.t
    reduced = await reduce_degree(
        exchange, agreement, check, 0, lambda s: field.multiply(x[:, s], y[:, s]), n_elements, degree
    )
    await check.verify("bench")  # nothing where N = 2t + 1
    return reduced


async def by_double_sharings(exchange: ShareExchange, x: Words, y: Words) -> Words:
    field, n_elements = exchange.field, x.shape[1]
    return await reduce_with_double_sharings(
        exchange, "bench", 0, lambda s: field.multiply(x[:, s], y[:, s]), n_elements
    )


async def by_proven_resharing(exchange: ShareExchange, x: Words, y: Words) -> Words:
    agreement = DealerAgreement(exchange, "bench", needs_all=True)
    check = ProductProofs(exchange, "bench")
    field, n_elements, degree = exchange.field, x.shape[1], 2 * exchange.t
    reduced = await reduce_degree(
        exchange, agreement, check, 0, lambda s: field.multiply(x[:, s], y[:, s]), n_elements, degree
    )
    check.multiplied(x, y, reduced)
    await check.verify("bench")
    return reduced


WAYS: dict[str, Multiply] = {"resharing": by_resharing, "double_sharings": by_double_sharings}
PROVEN: dict[str, Multiply] = {"proven_resharing": by_proven_resharing}


@dataclass(frozen=True)
class Run:
    """One batch: processor time and bytes sent, per party."""

    cpu_s: float
    sent_bytes: int


def run(multiply: Multiply, field: ResidueField, n_parties: int, n_elements: int) -> Run:
    """Multiply once; the result is checked. Keys are agreed on before the clock starts."""
    t = (n_parties - 1) // 2
    scheme = ShamirScheme(field, n_parties, t)
    x, y = (field.random(KeyStream(InsecureTestEntropy(name).read(32)), (n_elements,)) for name in ("x", "y"))
    x_shares, y_shares = deal(scheme, x), deal(scheme, y)
    network = LocalNetwork(local_names(n_parties))
    network.fault = partial(deliver_and_forget, network)
    started = asyncio.Barrier(n_parties)
    marks: dict[str, Any] = {}

    async def member(session: Session) -> Words:
        secrets = await agree_pairwise_secrets(session, range(1, n_parties + 1), n_parties)
        exchange = ShareExchange(session, field, n_parties, t, secrets)
        await started.wait()
        marks.setdefault("bytes", sum(network.sent_bytes.values()))
        marks.setdefault("cpu_s", time.process_time())
        share = await multiply(exchange, x_shares[session.me], y_shares[session.me])
        marks["end_cpu_s"] = time.process_time()
        return share

    products = asyncio.run(network.run(dict.fromkeys(range(1, n_parties + 1), member)))
    if not np.array_equal(scheme.recombine(products), field.multiply(x, y)):
        raise RuntimeError("the product is wrong")
    sent_bytes = sum(network.sent_bytes.values()) - marks["bytes"]
    return Run((marks["end_cpu_s"] - marks["cpu_s"]) / n_parties, sent_bytes // n_parties)


def deliver_and_forget(network: LocalNetwork, message: Message) -> Sequence[Message]:
    """Deliver faithfully, and keep the network's transcript from growing with the batch."""
    network.transcript.clear()
    return (message,)


def deal(scheme: ShamirScheme, secret: Words) -> dict[int, Words]:
    key = InsecureTestEntropy("shares").read(32)
    derived = {r: scheme.field.random(KeyStream(key, r), secret.shape[1:]) for r in scheme.derived_receivers(1)}
    return derived | scheme.deal(1, secret, derived)


def measure(n_parties: int, n_elements: int, n_primes: int, repeats: int, *, is_proven: bool) -> dict[str, Any]:
    """Return bytes and processor time per product and party, both ways, and with proofs where wanted."""
    field = ResidueField(n_primes)
    ways = WAYS | PROVEN if is_proven else WAYS
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, multiply in ways.items():
            runs[way].append(run(multiply, field, n_parties, n_elements))
    row: dict[str, Any] = {"parties": n_parties, "elements": n_elements}
    for way, measured in runs.items():
        cpu_s = statistics.median(r.cpu_s for r in measured)
        row[way] = {
            "sent_bytes_per_product": measured[0].sent_bytes / n_elements,
            "cpu_ns_per_product": 1e9 * cpu_s / n_elements,
            "batch_ms": 1e3 * cpu_s + 1e-6 * LINK_NS_PER_BYTE * measured[0].sent_bytes,
        }
    row["double_sharings"]["batch_ms"] += 1e3 * EXTRA_ROUNDS_S
    is_chosen = double_sharings_win(n_parties, (n_parties - 1) // 2, n_elements, field.n_words)
    if is_proven:
        times = statistics.median(r.cpu_s for r in runs["proven_resharing"]) / statistics.median(
            r.cpu_s for r in runs["resharing"]
        )
        row["proven_resharing"]["cpu_times_resharing"] = times
    row["chosen"] = "double_sharings" if is_chosen else "resharing"
    row["faster"] = min(WAYS, key=lambda way: float(row[way]["batch_ms"]))
    return row


def as_text(row: dict[str, Any]) -> str:
    """Return the line that people read."""
    times = ", ".join(f"{way} {row[way]['batch_ms']:.2f} ms" for way in WAYS)
    if "proven_resharing" in row:
        proven = row["proven_resharing"]
        times += f"; proven: {proven['cpu_ns_per_product']:.0f} ns, {proven['cpu_times_resharing']:.2f} times resharing"
    warning = "" if row["chosen"] == row["faster"] else "  NOT WHAT THE RULE CHOOSES"
    return f"N = {row['parties']}, {row['elements']:,} elements: {times}; faster: {row['faster']}{warning}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", default="3,5,7,9,11")
    parser.add_argument("--elements", default="1000,10000,100000,1000000")
    parser.add_argument("--primes", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--proven", action="store_true", help="resharing with proofs of all products besides")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    rows = []
    for n_parties in map(int, options.parties.split(",")):
        for n_elements in map(int, options.elements.split(",")):
            rows.append(measure(n_parties, n_elements, options.primes, options.repeats, is_proven=options.proven))
            if options.format == "text":
                print(as_text(rows[-1]), flush=True)
    if options.format == "json":
        print(json.dumps({"bench": "reduction", "machine": describe_machine(), "products": rows}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
