"""Which of a person's rows count: a keyed hash decides, person by person."""

import hmac

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.job.row_ids import IdsDigest, Persons, digest_of_ids

IDS = st.lists(st.sampled_from(["ada", "ben", "cleo", "dan", ""]), min_size=1, max_size=30)
KEYS = st.binary(min_size=1, max_size=8)
MOST = st.integers(1, 4)


def hash_of(key):
    return lambda data: hmac.digest(key, data, "sha256")


@given(IDS, KEYS, MOST)
def test_of_each_person_so_many_rows_count_and_all_of_who_has_no_more(ids, key, most):
    kept = Persons.of(ids).kept(hash_of(key), most)
    for person in set(ids):
        rows = [i for i, one in enumerate(ids) if one == person]
        assert kept[rows].sum() == min(most, len(rows))


@given(IDS, KEYS, MOST)
def test_without_a_person_the_same_rows_of_all_others_count(ids, key, most):
    kept = Persons.of(ids).kept(hash_of(key), most)
    for person in set(ids):
        others = [i for i, one in enumerate(ids) if one != person]
        if others:
            assert kept[others].tolist() == Persons.of([ids[i] for i in others]).kept(hash_of(key), most).tolist()


@given(IDS, IDS, KEYS, MOST, st.randoms())
def test_how_rows_of_others_are_mixed_in_makes_no_difference(ids, more, key, most, random):
    """Rows of other persons, in any number, before, between and after."""
    mixed = [(one, i) for i, one in enumerate(ids)]
    for one in more:
        mixed.insert(random.randint(0, len(mixed)), (f"other {one}", None))
    kept = Persons.of(one for one, _ in mixed).kept(hash_of(key), most)
    found = {i: bool(keeps) for (_, i), keeps in zip(mixed, kept, strict=True) if i is not None}
    alone = Persons.of(ids).kept(hash_of(key), most)
    assert [found[i] for i in range(len(ids))] == alone.tolist()


def test_the_key_decides_and_every_row_has_the_same_chance():
    persons = Persons.of(["ada"] * 5 + ["ben"] * 3)
    drawn = [persons.kept(hash_of(i.to_bytes(4, "big")), 2) for i in range(3000)]
    assert len({kept.tobytes() for kept in drawn}) == 30  # 10 pairs of ada's rows times 3 of ben's
    often = np.mean(drawn, axis=0)
    assert often[:5] == pytest.approx(0.4, abs=0.05)  # 5.6 standard deviations
    assert often[5:] == pytest.approx(2 / 3, abs=0.05)


@given(IDS, IDS)
def test_two_tables_agree_in_the_digest_exactly_if_they_agree_in_every_rows_person(ids, others):
    assert (Persons.of(ids).digest == Persons.of(others).digest) == (ids == others)
    assert Persons.of(ids).digest == digest_of_ids(ids)


def test_a_person_without_any_row_that_counts_is_none():
    with pytest.raises(ValueError, match="at least one row"):
        Persons.of(["ada"]).kept(hash_of(b"k"), 0)


def test_persons_are_not_shown():
    assert "ada" not in repr(Persons.of(["ada", "ben"]))


@settings(max_examples=30)
@given(st.lists(st.lists(st.text(max_size=300), max_size=6), max_size=4))
def test_ids_that_are_joined_have_the_digest_of_those_that_come_one_by_one(batches):
    digest = IdsDigest()
    for ids in batches:
        texts = [one.encode() for one in ids]
        digest.add_joined(b"".join(texts), np.array([len(text) for text in texts], dtype=np.uint32))
    assert digest.digest() == digest_of_ids(one for ids in batches for one in ids)


@pytest.mark.parametrize("lengths", [[2, 2], [2, 4], [6, -1]])
def test_lengths_that_are_not_those_of_the_texts_are_refused(lengths):
    with pytest.raises(ValueError, match="lengths"):
        IdsDigest().add_joined(b"abcde", np.array(lengths))
