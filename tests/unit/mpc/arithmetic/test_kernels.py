import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from mpc.arithmetic import field as field_module
from mpc.arithmetic import kernels
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES

ROOT = Path(kernels.__file__).parents[2]
COMPILED = [getattr(kernels, name) for name in dir(kernels) if hasattr(getattr(kernels, name), "nopython_signatures")]
HELPERS = {"_float", "_reduce", "_below", "_out_of_range"}
FIELDS = [ResidueField(3), ResidueField.over((3, 5, 7)), ResidueField.over((7,)), ResidueField.over((2039, 2097143))]


def edge_residues(p: int) -> list[int]:
    return sorted({v % p for v in (0, 1, 2, p // 2 - 1, p // 2, p // 2 + 1, p - 2, p - 1)})


def test_every_kernel_is_compiled_for_one_signature_before_the_first_call():
    public = [k for k in COMPILED if k.__name__ not in HELPERS]
    assert len(public) >= 10
    assert all(len(k.nopython_signatures) == 1 for k in public)
    with pytest.raises(TypeError):
        kernels.add(*(np.zeros(4, dtype=np.int32) for _ in range(4)))


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: str(f.primes))
def test_products_and_combinations_of_extreme_residues_are_reduced_exactly(field):
    for i, p in enumerate(field.primes):
        edges = edge_residues(p)
        pairs = [(x, y) for x in edges for y in edges]
        left, right = (
            field.pack([np.array([pair[side] % q for pair in pairs]) for q in field.primes]) for side in (0, 1)
        )
        product = field.residues(field.multiply(left, right))[i]
        assert product.tolist() == [x * y % p for x, y in pairs]
        for weight in edges:
            scaled = field.residues(field.scale(left, weight))[i]
            assert scaled.tolist() == [x * weight % p for x, _ in pairs]
            for other in edges:
                weights = [field.weights_of(weight), field.weights_of(other), field.weights_of(p - 1)]
                combined = field.residues(field.combine([left, right, left], weights))[i]
                assert combined.tolist() == [(x * weight + y * other + x * (p - 1)) % p for x, y in pairs]


@pytest.mark.parametrize("n_primes", [4, 6])
def test_encoding_agrees_with_integer_remainders_over_the_whole_range_of_int64(n_primes):
    field = ResidueField(n_primes)
    info = np.iinfo(np.int64)
    values = np.random.default_rng(1).integers(info.min, info.max, 400_000, endpoint=True)
    near = [k * p + d for p in PRIMES for k in (-(2**41), -3, 0, 5, 2**41) for d in (-1, 0, 1)]
    values = np.concatenate([values, [info.min, info.max], near])
    words = field.encode(values)
    field.check(words)
    for p, residues in zip(field.primes, field.residues(words), strict=True):
        np.testing.assert_array_equal(residues, values % p)


def test_balanced_residues_are_written_beside_each_other_in_float64():
    field = ResidueField(2)
    left, right = field.encode(np.arange(-6, 6).reshape(4, 3)), field.encode(np.full((4, 1), 10**6))
    panel = np.full((3, 5, 4), np.nan)
    kernels.unpack_balanced(panel, 0, left[0], field.word_primes(0))
    kernels.unpack_balanced(panel, 3, right[0], field.word_primes(0))
    for plane in panel[:2]:
        np.testing.assert_array_equal(plane[:4, :3], np.arange(-6, 6).reshape(4, 3))
        np.testing.assert_array_equal(plane[:4, 3], 10**6)
    assert not panel[2, :4].any()
    assert np.isnan(panel[:, 4]).all()


def test_balanced_residues_reach_half_the_prime_on_both_sides():
    field = ResidueField(3)
    largest = field.pack([np.array([[p // 2, p // 2 + 1, p - 1]]) for p in field.primes])
    panel = np.empty((3, 1, 3))
    kernels.unpack_balanced(panel, 0, largest[0], field.word_primes(0))
    assert panel[:, 0].tolist() == [[p // 2, -(p // 2), -1] for p in field.primes]


@pytest.mark.parametrize("n_primes", [1, 2, 3])
def test_residues_that_are_reduced_or_balanced_are_packed_as_they_were(n_primes):
    field = ResidueField(n_primes)
    ends = [np.array([0, 1, p // 2, p // 2 + 1, -(p // 2), -(p // 2) - 1, p - 1, -1]) for p in field.primes]
    out = np.empty(8, dtype=np.uint64)
    kernels.pack_balanced(out, np.array(ends, dtype=np.float64), field.word_primes(0))
    np.testing.assert_array_equal(out, field.pack([e % p for e, p in zip(ends, field.primes, strict=True)])[0])


def test_rows_are_reduced_each_by_its_own_prime():
    sums = np.array([[2.0**52, -(2.0**50), 5.0]] * 3)
    kernels.reduce_all_balanced(sums, np.array(PRIMES[:3], dtype=np.float64))
    for row, p in zip(sums, PRIMES, strict=False):
        assert np.abs(row).max() <= p / 2 + 1
        assert [int(s) % p for s in row] == [2**52 % p, -(2**50) % p, 5]


@njit
def reduce_all(sums, p, inverse):
    out = np.empty_like(sums)
    for i in range(sums.size):
        out[i] = kernels._reduce(sums[i], p, inverse)
    return out


@pytest.mark.parametrize("p", [*PRIMES, 3, 7, 1021, 1048573])
def test_multiples_of_the_prime_and_their_neighbours_are_reduced_exactly_up_to_two_to_the_51(p):
    largest = 2**51 // p - 1
    quotients = np.random.default_rng(5).integers(1, largest, 100_000)
    quotients = np.concatenate([quotients, np.arange(1, 5000), largest - np.arange(5000)])
    for offset in (-1, 0, 1):
        sums = (quotients * p + offset).astype(np.uint64)
        np.testing.assert_array_equal(reduce_all(sums, np.uint64(p), 1.0 / p), sums % np.uint64(p))


@pytest.mark.parametrize("p", [PRIMES[0], PRIMES[5], 7])
def test_sums_below_two_to_the_53_are_reduced_to_balanced_residues(p):
    exact = [s * (2**53 - p - d) for s in (-1, 1) for d in range(200)] + [k * p + p // 2 for k in range(-200, 200)]
    sums = np.array(exact, dtype=np.float64)
    kernels.reduce_balanced(sums, float(p), 1.0 / p)
    assert np.abs(sums).max() <= p / 2 + 1
    assert [int(s) % p for s in sums] == [e % p for e in exact]


def test_the_largest_sum_of_collected_products_is_a_float64_integer():
    largest = max(PRIMES) // 2
    assert kernels.MAX_COLLECTED_PRODUCTS * largest**2 + largest + 1 <= 2**53 - max(PRIMES)


def test_the_package_can_be_imported_where_no_cache_folder_is_writable(tmp_path):
    for room in ("entropy", "mpc"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "mpc" / "arithmetic" / "__pycache__").write_text("a file where the cache folder would be")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": os.devnull, "XDG_CACHE_HOME": os.devnull}
    environment.pop("NUMBA_CACHE_DIR", None)
    program = (
        "import mpc.arithmetic.kernels, mpc.arithmetic.field\n"
        "f = mpc.arithmetic.field.ResidueField(3)\n"
        "print(mpc.arithmetic.kernels.__file__, f.decode(f.multiply(f.encode([6]), f.encode([-7])))[0])"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.split() == [str(tmp_path / "mpc" / "arithmetic" / "kernels.py"), "-42"]


def test_pieces_of_a_linear_combination_fit_between_chunks():
    field, size = ResidueField(1), field_module._CHUNK + 3
    values = np.arange(size) - 1000
    words = field.encode(values)
    combined = field.combine([words] * 3, [field.weights_of(w) for w in (2, -3, 5)])
    np.testing.assert_array_equal(field.decode(combined), 4 * values)
