"""Transfers of keys, and what they are extended to: both ends agree at common ids, and there only."""

import pickle

import numpy as np
import pytest
from matchings import ids_of

from entropy import InsecureTestEntropy
from mpc.matching.group import InvalidPointError, Scalar
from mpc.matching.transfer import function
from mpc.matching.transfer.code import LENGTH
from mpc.matching.transfer.function import CheckFailedError, HolderEnd, LeaderEnd, Places, stored
from mpc.matching.transfer.key_transfers import GENERATOR, TransferReceiver, TransferSender

SALT = b"s" * 16
ENTROPY = InsecureTestEntropy("transfers")
CHOICES = np.random.default_rng(3).integers(0, 2, LENGTH).astype(np.uint8)
KEYS = [[ENTROPY.read(32) for _ in range(LENGTH)] for _ in range(2)]
CHOSEN = [KEYS[bit][j] for j, bit in enumerate(CHOICES.tolist())]


def transferred(choices, context=b"job", of_receiver=b"job"):
    sender = TransferSender(context, ENTROPY)
    receiver = TransferReceiver(of_receiver, choices, ENTROPY)
    return sender, receiver


def test_the_receiver_gets_the_key_of_its_bit_and_not_the_other():
    choices = np.array([0, 1, 1, 0, 1], dtype=np.uint8)
    sender, receiver = transferred(choices)
    both, mine = sender.keys(receiver.message), receiver.keys(sender.message)
    assert mine == [both[bit][j] for j, bit in enumerate(choices.tolist())]
    assert len({*both[0], *both[1]}) == 10


def test_keys_of_another_job_or_pair_have_nothing_in_common():
    choices = np.zeros(3, dtype=np.uint8)
    sender, receiver = transferred(choices, of_receiver=b"another")
    assert not {*receiver.keys(sender.message)} & {key for keys in sender.keys(receiver.message) for key in keys}


@pytest.mark.parametrize("bit", [0, 1])
def test_points_of_a_transfer_are_all_different_whatever_is_chosen(bit):
    _, receiver = transferred(np.full(4, bit, dtype=np.uint8))
    assert len({point.tobytes() for point in receiver.message.reshape(-1, 32)}) == 8


def test_what_is_no_point_is_refused():
    sender, receiver = transferred(np.zeros(2, dtype=np.uint8))
    with pytest.raises(InvalidPointError):
        receiver.keys(np.full(32, 0xFF, np.uint8))
    with pytest.raises(InvalidPointError):
        receiver.keys(np.zeros(32, np.uint8))
    with pytest.raises(InvalidPointError):
        sender.keys(np.full_like(receiver.message, 0xFF))


def test_the_generator_is_that_of_the_group():
    one = Scalar((1).to_bytes(32, "little"))
    assert np.array_equal(one.multiply(GENERATOR), GENERATOR)
    order = 2**252 + 27742317777372353535851937790883648493
    with pytest.raises(InvalidPointError):
        Scalar(order.to_bytes(32, "little")).multiply(GENERATOR)


def ends(n_keys):
    return LeaderEnd((KEYS[0], KEYS[1]), n_keys, SALT, ENTROPY), HolderEnd(CHOSEN, CHOICES, n_keys, SALT)


def test_both_ends_have_one_function_at_the_leaders_ids_and_others_differ():
    leader, holder = ends(40)
    for part in range(2):  # the streams go on
        names, others = [(part, j) for j in range(30)], [(part, j) for j in range(20, 60)]
        mine, theirs = Places(ids_of(names), SALT), Places(ids_of(others), SALT)
        sent, check, ours = leader.extend(mine, stored(mine, 40, ENTROPY))
        values = holder.evaluate(theirs, sent, check)
        assert np.array_equal(ours.pads[20:], values.pads[:10])
        assert np.array_equal(ours.tags[20:], values.tags[:10])
        assert not {tag.tobytes() for tag in ours.tags} & {tag.tobytes() for tag in values.tags[10:]}


def test_what_the_leader_could_compute_elsewhere_is_not_the_function():
    """Nor would it be without the code, or without the holder's bits: the search would find it."""
    leader, holder = ends(5)
    mine, theirs = Places(ids_of("abcde"), SALT), Places(ids_of("vwxyz"), SALT)
    sent, check, _ = leader.extend(mine, stored(mine, 5, ENTROPY))
    rows = function._drawn_rows([function.KeyStream(key) for key in KEYS[0]], len(sent))
    guessed = theirs.values(SALT, leader._store.decode(theirs.seeds, rows[: -function.SUMS]))
    assert not np.any(holder.evaluate(theirs, sent, check).tags == guessed.tags, axis=1).all()
    own = mine.values(SALT, leader._store.decode(mine.seeds, rows[: -function.SUMS]))
    again = ends(5)[1].evaluate(mine, sent, check)
    assert np.array_equal(own.tags, again.tags)


@pytest.mark.parametrize("n_ids", [0, 20])
def test_what_is_sent_is_as_good_as_random_whatever_the_ids(n_ids):
    leader, _ = ends(20)
    places = Places(ids_of(range(n_ids)), SALT)
    sent, check, _ = leader.extend(places, stored(places, 20, ENTROPY))
    n_bits = 8 * sent.size
    assert abs(np.unpackbits(sent).mean() - 0.5) < 6 * 0.5 / n_bits**0.5
    sums = np.unpackbits(check[:, 8:9])  # bits 64 to 71 of sums of points
    assert abs(sums.mean() - 0.5) < 6 * 0.5 / sums.size**0.5


def test_sums_that_two_holders_get_of_one_store_have_no_random_row_in_common():
    """Else two holders who collude would know 128 sums of a store's rows, and test guesses of its ids by them."""
    places = Places(ids_of(range(3)), SALT)
    store, hidden = stored(places, 3, ENTROPY), []
    for _ in range(2):
        sent, check, _ = ends(3)[0].extend(places, store)
        alone = np.concatenate([store, np.zeros((function.SUMS, function.WORDS), dtype=np.uint64)])
        summed = function._summed(alone, function._choices(sent, SALT))
        hidden.append(summed ^ function._words(check)[:, : function.WORDS])
    assert (hidden[0] != hidden[1]).any(axis=1).all()


@pytest.mark.parametrize("n_places", [1, 40])
def test_a_row_that_is_no_word_of_the_code_is_refused(n_places):
    """In a place whose bit of s is one: where it is zero, nothing of what was changed reaches the holder."""
    leader, holder = ends(10)
    places = Places(ids_of(range(10)), SALT)
    extended = function.add_chosen

    def off(out, messages, table):
        extended(out, messages, table)
        for place in np.flatnonzero(CHOICES)[:n_places]:
            out[3, place // 64] ^= np.uint64(1 << int(place % 64))

    function.add_chosen = off
    try:
        sent, check, _ = leader.extend(places, stored(places, 10, ENTROPY))
    finally:
        function.add_chosen = extended
    with pytest.raises(CheckFailedError):
        holder.evaluate(places, sent, check)


def test_altered_sums_are_refused():
    leader, holder = ends(10)
    places = Places(ids_of(range(10)), SALT)
    sent, check, _ = leader.extend(places, stored(places, 10, ENTROPY))
    check = check.copy()
    check[5, 0] ^= 1
    with pytest.raises(CheckFailedError):
        holder.evaluate(places, sent, check)


def test_ends_show_nothing_and_are_not_stored():
    for end in ends(3):
        assert repr(end) in ("LeaderEnd()", "HolderEnd()")
        with pytest.raises(TypeError):
            pickle.dumps(end)
