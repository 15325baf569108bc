"""The compact form of elements: nothing of them is lost, what is none of them is refused, and draws are uniform."""

import itertools

import numpy as np
import pytest
from sharings import random_words

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic import compact as compact_module
from mpc.arithmetic.compact import CompactForm, has_compact_form
from mpc.arithmetic.field import ResidueField
from mpc.errors import OutOfRangeError, ShapeError

FIELDS = [ResidueField(1), ResidueField(4), ResidueField.over((7,)), ResidueField.over((3, 5, 7, 2097143))]
SHAPES = [(0,), (1,), (2, 1), (3,), (4,), (7, 3), (5, 0)]


def stream(seed):
    return KeyStream(InsecureTestEntropy(seed).read(32))


def test_fields_have_it_whose_last_word_has_a_single_residue():
    assert [has_compact_form(ResidueField(k)) for k in range(1, 7)] == [True, False, False, True, False, False]


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: str(f.primes))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elements_come_back_and_take_four_thirds_of_a_word_or_a_third(field, shape):
    form, words = CompactForm(field), random_words(field, shape, "elements")
    n = words[0].size
    compact = form.compacted(words)
    assert len(compact) == form.n_words(n) == (field.n_words - 1) * n + (n + 2) // 3
    form.check(compact, n)
    np.testing.assert_array_equal(form.expanded(compact, shape), words)


def test_the_last_residues_lie_in_thirds_of_the_elements():
    field = ResidueField(4)
    values = [np.arange(7) + 10 * i for i in range(4)]
    compact = CompactForm(field).compacted(field.pack(values))
    assert compact[:7].tolist() == [a | b << 21 | c << 42 for a, b, c in zip(*values[:3], strict=True)]
    assert compact[7:].tolist() == [30 | 33 << 21 | 36 << 42, 31 | 34 << 21, 32 | 35 << 21]


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: str(f.primes))
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_a_residue_that_is_none_is_refused_wherever_it_stands(field, n):
    form = CompactForm(field)
    zeros = form.compacted(field.zeros(n))
    form.check(zeros, n)
    for place, residue in itertools.product(range(len(zeros)), range(3)):
        whole = place < (field.n_words - 1) * n
        prime = field.primes[residue] if whole else field.primes[-1]
        bad = zeros.copy()
        bad[place] = np.uint64(prime << 21 * residue)
        with pytest.raises(OutOfRangeError):
            form.check(bad, n)
    bad = zeros.copy()
    bad[-1] = np.uint64(1 << 63)
    with pytest.raises(OutOfRangeError):
        form.check(bad, n)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_nothing_can_be_written_where_there_is_no_element(n):
    form = CompactForm(ResidueField(1))
    m = len(form.compacted(ResidueField(1).zeros(n)))
    for j, i in itertools.product(range(m), range(3)):
        bad = np.zeros(m, dtype=np.uint64)
        bad[j] = np.uint64(1 << 21 * i)
        if i * m + j < n:
            form.check(bad, n)
            continue
        with pytest.raises(OutOfRangeError):
            form.check(bad, n)


def test_words_of_another_number_are_refused():
    form = CompactForm(ResidueField(4))
    for wrong in (np.zeros(5, dtype=np.uint64), np.zeros((2, 3), dtype=np.uint64), np.zeros(4)):
        with pytest.raises(ShapeError):
            form.check(wrong, 3)


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: str(f.primes))
def test_draws_are_elements_alike_for_equal_streams_however_they_are_cut(field, monkeypatch):
    shape = (50, 7)
    drawn = CompactForm(field).random(stream("one"), shape)
    field.check(drawn)
    assert drawn.shape == (field.n_words, *shape)
    np.testing.assert_array_equal(drawn, CompactForm(field).random(stream("one"), shape))
    assert (drawn != CompactForm(field).random(stream("another"), shape)).any()
    monkeypatch.setattr(compact_module, "_STREAM_CHUNK", 16)
    np.testing.assert_array_equal(drawn, CompactForm(field).random(stream("one"), shape))


def test_draws_of_a_small_prime_are_uniform_in_each_third_and_independent():
    """Chi-squared of pairs of neighbouring thirds: 48 degrees of freedom, 115 has a probability below 10^-6."""
    n = 3 * 20_000
    (residues,) = ResidueField.over((7,)).residues(CompactForm(ResidueField.over((7,))).random(stream("uniform"), (n,)))
    thirds = residues.reshape(3, -1)
    for a, b in itertools.combinations(range(3), 2):
        counts = np.bincount(7 * thirds[a] + thirds[b], minlength=49)
        assert ((counts - n / 3 / 49) ** 2 / (n / 3 / 49)).sum() < 115
