"""Quantisation as compiled for processors of several kinds: the integers of NumPy, and vector instructions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import child_environ

FLAGS = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
PROCESSORS = {"x86-64": "sse2", "haswell": "avx2", "skylake-avx512": "avx512vl"}
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="names of x86 processors")

AGAINST_NUMPY = """
import json, sys
import numpy as np
from analyses.rows.quantise_kernels import quantise

rng = np.random.default_rng(3)
for n in (1, 2, 3, 4, 7, 8, 33, 40):
    lower, upper = rng.uniform(-9, 0, n), rng.uniform(1, 9, n)
    centres, factor = rng.choice([0.0, 0.5], n), 777.7
    values = rng.uniform(-12, 12, (200, n))
    values[3, n // 2] = np.nan
    clipped = np.clip(values, lower, upper)
    scaled = clipped.copy()
    scaled -= lower
    scaled /= upper - lower
    scaled -= centres
    scaled *= factor
    bad = np.isnan(values).any(axis=1)
    expected = np.rint(np.where(np.isnan(scaled), 0.0, scaled)).astype(np.int64)
    squares = (expected**2).sum(axis=1)
    largest = int(np.median(squares))
    out, outside, left = np.empty((200, n), np.int64), np.zeros(n, np.int64), np.empty(200, np.int64)
    n_left = quantise(
        out, outside, left, values, np.concatenate((lower, upper)), upper - lower, centres, factor, np.uint64(largest)
    )
    assert left[:n_left].tolist() == np.flatnonzero(bad | (squares > largest)).tolist(), n
    assert out[~bad].tolist() == expected[~bad].tolist(), n
    assert outside.tolist() == np.count_nonzero(clipped != values, axis=0).tolist(), n

text = next(iter(quantise.inspect_asm().values()))
print(json.dumps({"wide": text.count("%ymm"), "conversions": text.count("vcvt")}))
"""


@pytest.mark.parametrize(
    "processor",
    [pytest.param("x86-64", marks=pytest.mark.slow), "haswell", pytest.param("skylake-avx512", marks=pytest.mark.slow)],
)
def test_rows_are_quantised_as_numpy_would_on_processors_of_every_kind(processor, tmp_path):
    if PROCESSORS[processor] not in FLAGS:
        pytest.skip(f"this processor cannot run code for {processor}")
    environment = {
        **child_environ(),
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    command = [sys.executable, "-c", AGAINST_NUMPY]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if processor == "haswell":
        instructions = json.loads(done.stdout)
        assert instructions["conversions"] == 0
        assert instructions["wide"] >= 30
