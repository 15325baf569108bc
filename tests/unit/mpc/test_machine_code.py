"""Kernels from a library made beforehand: the same results as numba's, the same refusals, and no compiler."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from child_processes import child_environ

from mpc import machine_code
from mpc.arithmetic import kernels
from mpc.arithmetic.moduli import PRIMES
from mpc.machine_code import Array, library_name

ROOT = Path(kernels.__file__).parents[2]
MODULE = kernels.__name__
SIGNATURES = machine_code.SIGNATURES[MODULE]
pytestmark = pytest.mark.skipif(shutil.which("ld") is None, reason="needs binutils")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Libraries that any processor of this kind can run: those that `make` has compiled of these kernels, or new."""
    compiled = ROOT / "build" / "kernels"
    if all((compiled / library_name(module)).exists() for module in machine_code.SIGNATURES):
        return compiled
    return compile_kernels(tmp_path_factory.mktemp("kernels"), "--least")


@pytest.fixture(scope="module")
def of_all_processors(tmp_path_factory) -> Path:
    """The libraries that an image gets of these kernels; those of all modules take minutes of a processor."""
    return compile_kernels(tmp_path_factory.mktemp("kernels"), MODULE)


def compile_kernels(made: Path, *how: str) -> Path:
    command = [sys.executable, str(ROOT / "deploy" / "image" / "compile-kernels"), str(made), *how]
    done = subprocess.run(command, env=child_environ(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


def arguments_of(name: str, size: int, rng: np.random.Generator) -> list:
    """Valid arguments: residues of all sizes, the edges among them, for three primes."""
    primes = np.array(PRIMES[:3], dtype=np.uint64)
    edges = np.array([[0, 1, int(p) // 2, int(p) // 2 + 1, int(p) - 1] for p in primes], dtype=np.uint64)

    def words(shape):
        count = int(np.prod(shape))
        parts = [rng.integers(0, int(p), count, dtype=np.uint64) for p in primes]
        for part, edge in zip(parts, edges, strict=True):
            part[: len(edge)] = edge[:count]
        return (parts[0] | parts[1] << np.uint64(21) | parts[2] << np.uint64(42)).reshape(shape)

    def balanced(shape):
        return rng.integers(-(1 << 20), 1 << 20, shape).astype(np.float64)

    garner = np.array([pow(PRIMES[0], -1, PRIMES[1]), pow(PRIMES[0] * PRIMES[1], -1, PRIMES[2])], dtype=np.uint64)
    weights, inverses = edges[:, -1].copy(), 1.0 / primes.astype(np.float64)
    everything = np.uint64((1 << 63) - 1)
    wild = rng.integers(0, 1 << 63, size, dtype=np.uint64)
    return {
        "count_out_of_range": [wild, primes],
        "mask_and_reject": [wild, everything, primes, np.zeros(size, dtype=np.int64)],
        "add": [words(size), words(size), words(size), primes],
        "subtract": [words(size), words(size), words(size), primes],
        "accumulate": [words(size), words(size), primes],
        "multiply": [words(size), words(size), words(size), primes, inverses],
        "scale": [words(size), words(size), weights, primes, inverses],
        "combine": [words(size), words(size), weights, words(size), weights - np.uint64(1), primes, inverses],
        "accumulate_scaled": [words(size), words(size), weights, primes, inverses],
        "encode": [words(size), rng.integers(-(1 << 62), 1 << 62, size), everything, primes, inverses],
        "from_residues": [words(size), words(size), garner, primes, inverses, 1 << 62, 1 << 62],
        "unpack_balanced": [np.zeros((3, 5, size + 2)), 1, words((5, size)), primes],
        "reduce_balanced": [rng.integers(-(1 << 52), 1 << 52, size).astype(np.float64), float(PRIMES[0]), inverses[0]],
        "reduce_all_balanced": [
            rng.integers(-(1 << 52), 1 << 52, (3, size)).astype(np.float64), np.array(PRIMES[:3], dtype=np.float64)
        ],
        "pack_balanced": [words(size), rng.integers(0, PRIMES[2], (3, size)).astype(np.float64), primes],
        "scale_balanced": [
            np.zeros((3, size)), balanced((3, size)), balanced(size), float(PRIMES[0]), inverses[0]
        ],
    }[name]  # fmt: skip


SIZES = (0, 1, 7, 64, 515, 5000)

RUN_ALL = """
import sys
import numpy as np
from test_machine_code import SIZES, SIGNATURES, arguments_of
from mpc import machine_code
from mpc.arithmetic import kernels
results = {}
for name in SIGNATURES:
    for size in SIZES:
        arguments = arguments_of(name, size, np.random.default_rng(size))
        returned = getattr(kernels, name)(*arguments)
        results |= {f"{name}/{size}/{i}": a for i, a in enumerate(arguments) if isinstance(a, np.ndarray)}
        results[f"{name}/{size}/returned"] = np.array(-1 if returned is None else returned)
np.savez(sys.argv[1], **results)
print("numba.core" in sys.modules, type(kernels.add).__name__)
"""


def run_all(out: Path, library_path: str) -> tuple[dict, str]:
    environment = {**child_environ(), "LD_LIBRARY_PATH": library_path}
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", RUN_ALL, str(out)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(out) as found:
        return dict(found), done.stdout


@pytest.mark.slow
def test_every_kernel_of_every_library_does_what_numbas_does(of_all_processors, tmp_path):
    expected, how = run_all(tmp_path / "numba.npz", "")
    assert how.split() == ["True", "CPUDispatcher"]
    made = [path.parent for path in of_all_processors.rglob(library_name(MODULE))]
    assert len(made) == (3 if os.uname().machine == "x86_64" else 1)
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    for number, place in enumerate(made):
        needed = {"x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}.get(place.name, "")
        if needed not in flags:
            continue
        assert_same_results(expected, tmp_path / f"{number}.npz", place)
    assert {key.split("/")[0] for key in expected} == set(SIGNATURES)


def assert_same_results(expected, out, place):
    results, how = run_all(out, str(place))
    assert how.split() == ["False", "_Prepared"]
    assert results.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(results[key], value, err_msg=f"{place.name} {key}")


def test_wrong_arguments_are_refused_and_nothing_is_written(folder):
    program = """
import numpy as np
from mpc import machine_code
from mpc.arithmetic import kernels
good = lambda: [np.zeros(4, dtype=np.uint64) for _ in range(4)]
def refused(*arguments):
    try:
        kernels.add(*arguments)
    except TypeError:
        return True
for position in range(4):
    for wrong in (np.zeros(4, dtype=np.int32), np.zeros((2, 2), dtype=np.uint64), np.zeros(8, dtype=np.uint64)[::2],
                  np.zeros(4), [0, 0, 0, 0], None):
        arguments = good()
        arguments[position] = wrong
        assert refused(*arguments), (position, wrong)
frozen = good()
frozen[0].setflags(write=False)
assert refused(*frozen)
assert refused(*good()[:3])
kernels.add(*good())
print("fine")
"""
    environment = {**child_environ(), "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_the_kernels_of_estimates_have_a_library_too(folder):
    program = """
import sys
import numpy as np
from analyses.distribution.estimates import kernels
out, x = np.empty(5), np.array([0.1, 0.2, 0.3, 0.3, 0.1])
counts = np.array([3.0, 9.0, 1.0, 8.0, 7.0, 2.0, 5.0])
kernels.map_once(out, x, counts, np.zeros((2, 11)), 5, 1, 1, 1, 0.1, 0.2, 1)
n_maps = kernels.fixed_point(x, counts, np.zeros((5, 11)), 5, 1, 1, 1, 0.1, 0.2, 1, 1e-7, 1000)
print(type(kernels.map_once).__name__, n_maps, *out, *x)
"""
    prepared, compiled = (
        subprocess.run(
            [sys.executable, "-c", program],
            env={**child_environ(), "LD_LIBRARY_PATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for path in (str(folder), "")
    )
    assert (prepared[0], compiled[0]) == ("_Prepared", "CPUDispatcher")
    assert int(prepared[1]) > 0
    assert prepared[1:2] == compiled[1:2]
    assert [float(x) for x in prepared[2:]] == pytest.approx([float(x) for x in compiled[2:]], rel=1e-12)


@pytest.mark.slow
def test_a_library_of_other_kernels_is_not_taken(folder, tmp_path):
    for room in ("entropy", "mpc"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "mpc" / "arithmetic" / "kernels.py").open("a") as source:
        source.write("# changed\n")
    program = "import sys, mpc.arithmetic.kernels; print('numba' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.slow
def test_arithmetic_of_the_field_and_packed_words_are_right_with_the_library(folder):
    """Their tests, run again in a process that has the library."""
    files = ("arithmetic/test_field.py", "arithmetic/test_matmul.py", "secagg/vector/test_bit_packing.py")
    tests = [str(Path(__file__).parent / name) for name in files]
    environment = {**child_environ(), "LD_LIBRARY_PATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_kernel_has_a_declaration_in_c():
    for name, signature in SIGNATURES.items():
        arrays = [a for a in signature.arguments if isinstance(a, Array)]
        assert signature.c_declaration(name).count("*") == len(arrays)


def test_every_module_of_kernels_is_compiled_for_the_image():
    """A module that was forgotten would bring the compiler into every service of the image."""
    rooms = ("entropy", "mpc", "dp", "analyses", "service", "transport", "party", "coordinator", "device")
    sources = [path for room in rooms for path in (ROOT / room).rglob("*.py") if path.name != "machine_code.py"]
    found = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sources if "\n@kernel(" in path.read_text()
    }
    listed = (ROOT / "deploy" / "image" / "compile-kernels").read_text().split("MODULES = (")[1].split(")")[0]
    assert found == {line.strip(' ,"') for line in listed.splitlines() if line.strip()}


def test_all_modules_with_kernels_are_compiled_before_tests_begin():
    """By `make`, once: each process would compile them anew."""
    (patterns,) = re.findall(r"^KERNELS +:= \$\(wildcard (.*)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {path for pattern in patterns.split() for path in ROOT.glob(pattern)}
    rooms = (ROOT / "mpc", ROOT / "analyses", ROOT / "party", ROOT / "dp")
    found = {path for room in rooms for path in room.rglob("*.py") if "\n@kernel(" in path.read_text(encoding="utf-8")}
    assert named == found
