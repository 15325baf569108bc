"""What proofs of vectors cost a device and a party of a batch: processor time and bytes, beside a batch without them.

    python -m bench.sums.proven_vectors

All of it is the code of the services, in one process without network, files and ledger: a device makes its answer; a
party takes it in (certificate, signature, key exchange, share), opens it once more, and judges its proof. Medians.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bench.machine import describe_machine
from bench.sums.batch_runs import FAR, HUB, PARTIES, Certified, device_of, vouched
from entropy import KeyStream, SystemEntropy
from mpc.prime import kernels as prime_kernels
from mpc.secagg.secret.keys import RoundKey
from mpc.vector_proofs.prover import challenge_of, first_part, second_part
from mpc.vector_proofs.verifier import Verifier
from party.batches.collecting import Collection
from questions.shares import AskedBatch, BatchQuestion
from service.identity import Role
from service.trust.statements import StatementCheck
from transport.batch_codec import decode_answer, part_of

R = TypeVar("R")

SHAPES: dict[str, dict[str, Any]] = {
    "sum, entries up to 100": {"analysis": "secure-sum", "largest": 100},
    "sum, entries up to 100, norm": {"analysis": "secure-sum", "largest": 100, "largest_norm": 1000},
    "sum, entries up to 2^20": {"analysis": "secure-sum", "largest": 1 << 20},
    "histogram, one value": {"analysis": "secure-histogram", "largest": 1, "values": 1},
}


def question(length: int, shape: dict[str, Any], *, proofs: bool) -> BatchQuestion:
    """Return a batch of three parties."""
    asked = {"record": "steps", "privacy": {"epsilon": 1.0, "delta": 1e-9}, **shape}
    if shape["analysis"] == "secure-histogram":
        asked["edges"] = tuple(map(float, range(length + 1)))
    else:
        asked["length"] = length
    own = {"parties": PARTIES, "colluding": 1, "smallest_cohort": 2, "largest_cohort": 1000, "until": FAR}
    return BatchQuestion.from_tree({"sum": asked, **own, "proofs": proofs})


class Medians:
    """Milliseconds of processor time of pieces of work."""

    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}

    def run(self, what: str, work: Callable[[], R]) -> R:
        """Do some work, and count its time."""
        before = time.process_time()
        found = work()
        self._taken.setdefault(what, []).append(1000 * (time.process_time() - before))
        return found

    def milliseconds(self) -> dict[str, float]:
        """Return the median of each."""
        return {what: round(statistics.median(taken), 3) for what, taken in self._taken.items()}


def measure(length: int, shape: dict[str, Any], repeats: int, *, proofs: bool) -> dict[str, Any]:
    """Return what one answer costs its device, and each of two kinds of parties."""
    medians = Medians()
    with tempfile.TemporaryDirectory(prefix="moiety-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        certified = Certified(folder)
        asked = AskedBatch(question=question(length, shape, proofs=proofs), asker=HUB, session="00" * 16)
        n_values = 1 if shape["analysis"] == "secure-histogram" else length
        device = device_of(stack, folder / "device", certified(Role.DEVICE, "d0"), n_values)
        own = {party: RoundKey(SystemEntropy().read(32)) for party in PARTIES}
        keys = [vouched(asked, key, certified(Role.PARTY, party)) for party, key in own.items()]
        body = b""
        for _ in range(repeats):
            body = medians.run("device: answer", lambda: device.make(asked, keys))
            for position, party in ((0, "party with seeds"), (2, "party with vectors")):
                check = StatementCheck(certified(Role.PARTY, PARTIES[position]))
                collection = Collection(asked, PARTIES[position], own[PARTIES[position]], check)
                part = part_of("d0", decode_answer(body), position, len(PARTIES))
                medians.run(f"{party}: take", lambda taken=collection, part=part: taken.take([part]))
                if proofs:
                    again = medians.run(f"{party}: open again", lambda c=collection, p=part: c.opened_again([p], [0]))
                    _judge(medians, party, asked, collection, again[0], collection.challenge(part))
        if proofs:
            _prove(medians, asked, repeats)
    found = {"processor_ms": medians.milliseconds(), "answer_bytes": len(body)}
    return found | ({"opened_bytes": 8 * asked.question.claim.table.opened} if asked.question.claim else {})


def _prove(medians: Medians, asked: AskedBatch, repeats: int) -> None:
    claim = asked.question.claim
    assert claim is not None
    integers = np.zeros(claim.length, dtype=np.int64)
    for number in range(repeats):
        stream = KeyStream(bytes(32), number)
        first = medians.run("device: digits and masks", lambda s=stream: first_part(claim, integers, s))
        challenge = challenge_of(claim, stream)
        medians.run("device: proof", lambda f=first, c=challenge: second_part(claim, f, c))


def _judge(medians: Medians, party: str, asked: AskedBatch, collection: Collection, share: bytes, key: bytes) -> None:
    claim = asked.question.claim
    assert claim is not None
    verifier = Verifier(claim, KeyStream(bytes(32)), is_first=True)
    challenge = medians.run(f"{party}: challenge", lambda: challenge_of(claim, KeyStream(key)))
    both = medians.run(f"{party}: expand", lambda: collection.sum.both(share))
    opened = medians.run(f"{party}: its part of the proof", lambda: verifier.share_of(*both, challenge))
    medians.run(f"{party}: verdict", lambda: verifier.accepts(opened, challenge))
    medians.run(f"{party}: add", lambda: prime_kernels.add_to(collection.sum.total, np.ascontiguousarray(both[0])))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=51)
    options = parser.parse_args(arguments)
    report: dict[str, Any] = {"bench": "proven_vectors", "length": options.length, "machine": describe_machine()}
    for name, shape in SHAPES.items():
        report[name] = {
            kind: measure(options.length, shape, options.repeats, proofs=proofs)
            for kind, proofs in (("without proofs", False), ("with proofs", True))
        }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
