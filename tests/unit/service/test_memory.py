import subprocess
import sys

PROGRAM = """
from pathlib import Path

def resident_file_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssFile:")).split()[1]) * 1024

from mpc.arithmetic.field import ResidueField
from service.memory import release_compiler

before = resident_file_bytes()
release_compiler()
after = resident_file_bytes()
field = ResidueField(3)
words = field.encode([3, -4])
import numba
squares = field.decode(field.multiply(words, words)).tolist()
print(before - after, squares, numba.njit(lambda x: 3 * x + 1)(4))
"""


def test_a_released_compiler_takes_no_memory_and_kernels_and_compiler_still_work() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    released, results = done.stdout.split(maxsplit=1)
    assert int(released) > 10 << 20
    assert results.strip() == "[9, 16] 13"


STAYING = """
import gc
from service.memory import made_to_stay

gc.collect()
full_collections = gc.get_stats()[2]["collections"]
with made_to_stay():
    import party.server
print(gc.get_stats()[2]["collections"] - full_collections, gc.get_freeze_count(), gc.isenabled())
try:
    with made_to_stay():
        raise ImportError
except ImportError:
    print(gc.isenabled())
"""


def test_what_a_service_imports_is_never_looked_through() -> None:
    done = subprocess.run([sys.executable, "-c", STAYING], check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    n_collections, n_staying, *enabled = done.stdout.split()
    assert (n_collections, enabled) == ("0", ["True", "True"])
    assert int(n_staying) > 200_000
