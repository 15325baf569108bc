"""The kernels as compiled for processors of several kinds: the results of plain integers, and vector instructions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_environ

HERE = Path(__file__).parent
FLAGS = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
PROCESSORS = {"x86-64": "sse2", "haswell": "avx2", "skylake-avx512": "avx512vl"}
"""LLVM's name of a kind of processor, and the flag of those that can run its code."""
CONVERTING = ("multiply", "scale", "combine", "accumulate_scaled", "encode", "from_residues", "unpack_balanced")
SHORTER = ("combine", "encode", "unpack_balanced")
"""Those with a second loop, for words with one residue, before which its modulus is converted."""
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="names of x86 processors")

AGAINST_INTEGERS = """
import itertools, json, sys
import numpy as np
from mpc.arithmetic import kernels as k
from mpc.arithmetic.moduli import PRIMES, words_of

FIELDS = [PRIMES[:3], PRIMES[3:], PRIMES[:1], PRIMES[1:3], (3, 5, 7), (2097143, 1021, 3), (3, 1021, 2097143), (1019, 7)]


def pack(rows):
    return np.array([a | b << 21 | c << 42 for a, b, c in rows], dtype=np.uint64)


def unpack(words):
    return [(int(x) & 0x1FFFFF, int(x) >> 21 & 0x1FFFFF, int(x) >> 42) for x in words]


def edges(p):
    return sorted({v % p for v in (0, 1, p // 2, p // 2 + 1, p - 2, p - 1)})


def check(name, found, expected):
    assert found == expected, (sys.argv[1], name, [x for x in zip(found, expected) if x[0] != x[1]][:3])


for used in FIELDS:
    c = words_of(tuple(used))[0]
    p = [int(x) for x in c.primes]
    primes, inverses = c.primes, c.inverses
    rng = np.random.default_rng(1)
    rows = list(itertools.product(*map(edges, p))) + [tuple(int(rng.integers(q)) for q in p) for _ in range(300)]
    one = [rows[i] for i in rng.permutation(len(rows))]
    two = [rows[i] for i in rng.permutation(len(rows))]
    a, b, out = pack(one), pack(two), np.empty(len(rows), dtype=np.uint64)
    each = lambda f: [tuple(f(x, y, q) % q for x, y, q in zip(r, s, p)) for r, s in zip(one, two)]
    k.add(out, a, b, primes)
    check("add", unpack(out), each(lambda x, y, q: x + y))
    k.subtract(out, a, b, primes)
    check("subtract", unpack(out), each(lambda x, y, q: x - y))
    k.multiply(out, a, b, primes, inverses)
    check("multiply", unpack(out), each(lambda x, y, q: x * y))
    total = a.copy()
    k.accumulate(total, b, primes)
    check("accumulate", unpack(total), each(lambda x, y, q: x + y))
    for weights in ([q - 1 for q in p], [1 % q for q in p], [q // 2 for q in p], [0, 0, 0]):
        w, v = np.array(weights, dtype=np.uint64), np.array([q - 1 for q in p], dtype=np.uint64)
        of = dict(zip(p, weights))
        k.scale(out, a, w, primes, inverses)
        check("scale", unpack(out), each(lambda x, y, q: x * of[q]))
        k.combine(out, a, w, b, v, primes, inverses)
        check("combine", unpack(out), each(lambda x, y, q: x * of[q] + y * (q - 1)))
        total = a.copy()
        k.accumulate_scaled(total, b, w, primes, inverses)
        check("accumulate_scaled", unpack(total), each(lambda x, y, q: x + y * of[q]))

    order = c.order
    near = [m * q + d for q in p for m in (-(2**41), -3, 0, 5, 2**41) for d in (-1, 0, 1)]
    near += [s * (1 << e) + d for e in (0, 21, 32, 42, 43, 52, 62) for s in (-1, 1) for d in (-1, 0, 1)]
    values = near + [-(1 << 63), (1 << 63) - 1] + [int(x) for x in rng.integers(-(1 << 63), (1 << 63) - 1, 500)]
    encoded = np.empty(len(values), dtype=np.uint64)
    k.encode(encoded, np.array(values, dtype=np.int64), np.uint64((1 << 63) - 1), primes, inverses)
    check("encode", unpack(encoded), [tuple(x % q for q in p) for x in values])
    decoded = np.empty(len(values), dtype=np.uint64)
    k.from_residues(decoded, encoded, c.garner, primes, inverses, order // 2, order)
    check("from_residues", decoded.view(np.int64).tolist(), [(x + order // 2) % order - order // 2 for x in values])
    k.from_residues(decoded, encoded, c.garner, primes, inverses, (1 << 63) - 1, 0)
    check("from_residues", decoded.tolist(), [x % order for x in values])

    panel = np.full((3, 1, len(rows)), np.nan)
    if p[1:] == [1, 1]:
        panel[1:] = 0.0  # matrices of a word with one residue that nobody writes to
    k.unpack_balanced(panel, 0, a.reshape(1, -1), primes)
    check("unpack_balanced", panel[:, 0].T.tolist(), [[x - q * (x > q // 2) for x, q in zip(r, p)] for r in one])
    wild = [x | s << 63 for x in [*map(int, a), *map(int, rng.integers(0, 1 << 63, 300))] for s in (0, 1)]
    bad = [any(x >= q for x, q in zip(r, p)) for r in unpack(np.array(wild, dtype=np.uint64))]
    check("count_out_of_range", k.count_out_of_range(np.array(wild, dtype=np.uint64), primes), sum(bad))
    words, places = np.array(wild, dtype=np.uint64), np.empty(len(wild), dtype=np.int64)
    n_found = k.mask_and_reject(words, np.uint64((1 << 63) - 1), primes, places)
    rejected = [i for i, x in enumerate(wild) if any(y >= q for y, q in zip(unpack([x & ~(1 << 63)])[0], p))]
    check("mask_and_reject", places[:n_found].tolist(), rejected)

for q in PRIMES:
    sums = [s * (2**53 - q - d) for s in (-1, 1) for d in range(50)] + [m * q + q // 2 for m in range(-50, 50)]
    reduced = np.array(sums, dtype=np.float64)
    k.reduce_balanced(reduced, float(q), 1.0 / q)
    check("reduce_balanced", [int(x) % q for x in reduced], [x % q for x in sums])

text = {name: next(iter(getattr(k, name).inspect_asm().values())) for name in json.loads(sys.argv[2])}
print(json.dumps({name: [t.count("vcvt"), t.count("%ymm")] for name, t in text.items()}))
"""


def run_for(processor: str, cache: Path) -> dict[str, list[int]]:
    """Run the program with kernels compiled for a processor; return how often each converts, and uses four words."""
    environment = {
        **child_environ(),
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(cache),
    }
    command = [sys.executable, "-c", AGAINST_INTEGERS, processor, json.dumps(CONVERTING)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("processor", sorted(PROCESSORS.keys() - {"haswell"}))
def test_every_kernel_agrees_with_plain_integers_on_processors_of_every_kind(processor, tmp_path):
    if PROCESSORS[processor] not in FLAGS:
        pytest.skip(f"this processor cannot run code for {processor}")
    run_for(processor, tmp_path)


def test_with_avx2_the_kernels_are_right_and_convert_no_word_alone(tmp_path):
    if PROCESSORS["haswell"] not in FLAGS:
        pytest.skip("this processor has no AVX2")
    instructions = run_for("haswell", tmp_path)
    assert set(instructions) == set(CONVERTING)
    for name, (n_conversions, n_wide) in instructions.items():
        n_before_loops = 4 if name in SHORTER else 3
        assert n_conversions <= n_before_loops, (name, "one of each modulus, before the loop")
        assert n_wide >= 30, name
