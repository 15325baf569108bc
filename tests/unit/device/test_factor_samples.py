"""One device in the form sgd, without a network: coins that nobody sees, and what is paid whatever they show."""

import json
import stat
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from factor_children import factor_device_in, invitation_to, seeds_of
from factor_devices import DECLARED, N_ITEMS, descent_question

from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember
from analyses.matrix_factorization.devices.planned import rounds_of
from device.factors import series_of
from device.journal import SqliteSampleJournal
from device.models import KeptModel, NoModelError, keep_model, read_model
from device.report import kept_rounds, read_sum_report
from entropy import KeyStream
from ledger.books import JobState
from mpc.errors import PeerViolationError
from mpc.secagg.errors import PolicyRefusalError

T, K = 4, 2


def standing(device):
    found = device.budget.standing()
    return found["committed_jobs"], found["reserved_jobs"]


def entered(device, number, attempt=0, **changes):
    return device.factors.entered(invitation_to(number, attempt, **{"form": "sgd", **changes}))


def sent(device, number, attempt=0, **changes):
    """Go through a round until the vector leaves, and return that with what its coin was thrown with."""
    answered = entered(device, number, attempt, **changes)
    answered.admit()
    answered.commit()
    vector, _ = answered.contribute(seeds_of(answered))
    answered.leave(b"")
    return vector, answered._coins


def test_the_first_k_vectors_are_held_and_paid_and_later_ones_cost_nothing(tmp_path):
    with factor_device_in(tmp_path) as device:
        for number in range(T):
            answered = entered(device, number)
            answered.admit()
            assert standing(device) == (min(number, K), max(0, K - number))
            answered.commit()
            answered.leave(b"")
            assert standing(device) == (min(number + 1, K), max(0, K - number - 1))


def test_a_device_that_comes_late_holds_what_the_rounds_to_come_can_cost(tmp_path):
    with factor_device_in(tmp_path) as device:
        entered(device, T - 1).admit()
        assert standing(device) == (0, 1)


def test_a_vector_of_another_attempt_has_a_coin_of_its_own_and_is_one_of_the_first_k_too(tmp_path):
    with factor_device_in(tmp_path) as device:
        (_, first), (_, second) = sent(device, 0), sent(device, 0, 1)
        assert (first.n_before, second.n_before, first.key == second.key) == (0, 1, True)
        assert standing(device)[0] == K
        for number in range(1, T):
            sent(device, number)
        vector, coins = sent(device, T - 1, 1)
        assert coins.n_before == T + 1
        assert not vector.any()  # all of its coins are thrown
        assert standing(device) == (K, 0)


def test_vectors_are_those_of_one_member_in_one_process_though_the_device_is_started_anew_each_time(tmp_path):
    rounds = rounds_of(descent_question(attempts=2, sampling_rate=0.9, most_participations=3), 5)
    changes = {"sampling_rate": 0.9, "most_participations": 3}
    member, n_sampled = None, 0
    for number in range(T):
        with factor_device_in(tmp_path) as device:
            vector, coins = sent(device, number, **changes)
            own = device.factors.ratings["films"].used().ratings(DECLARED, rounds.question.middle)
        if member is None:
            member = HorizontalMember(rounds.plan, own, rounds.first_points, KeyStream(coins.key))
        points = rounds.first_points if number == 0 else np.zeros_like(rounds.first_points)
        assert np.array_equal(vector, member.gradient(points).ravel())
        assert np.count_nonzero(vector.reshape(N_ITEMS, -1).any(axis=1)) <= rounds.plan.params.theta
        n_sampled += vector.any()
    assert 1 <= n_sampled <= 3


class Stopped(Exception):
    pass


@pytest.mark.parametrize("place", ["instead of the charge", "instead of counting the coin", "before the vector"])
def test_a_device_that_is_stopped_again_and_again_has_paid_for_k_vectors_before_any_is_free(
    tmp_path, monkeypatch, place
):
    """It is stopped in the first T rounds; whichever coins are used up by that, of what leaves the first K are paid."""
    n_sent = 0
    for attempt in range(8):
        for number in range(T):
            with factor_device_in(tmp_path) as device:
                is_stopped = attempt == 0
                answered = entered(device, number, attempt, attempts=8)
                answered.admit()
                if is_stopped and place != "before the vector":
                    target = device.budget if place == "instead of the charge" else device.factors.samples
                    monkeypatch.setattr(target, "commit_round" if target is device.budget else "begin", stop)
                    with pytest.raises(Stopped):
                        answered.commit()
                    continue
                answered.commit()
                if is_stopped:
                    continue
                answered.contribute(seeds_of(answered))
                n_sent += 1
                committed = sum(
                    charge.state is JobState.COMMITTED
                    for charge in device.budget._ledger._chain.submit(
                        lambda books, append: dict(books.charges)
                    ).values()
                )
                assert committed >= min(n_sent, K)
        if n_sent > K:
            break


def stop(*ignored):
    raise Stopped


class FewCoins:
    """Entropy that is the same in every run of the test."""

    is_secure = True

    def __init__(self, seed):
        self._stream = KeyStream(bytes([seed]) * 32)

    def read(self, n_bytes):
        return self._stream.read(n_bytes)


def test_no_device_is_in_more_vectors_than_k_and_what_is_paid_and_reported_says_nothing_of_it(tmp_path):
    n_vectors, paid, reports = [], set(), set()
    for seed in range(16):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with factor_device_in(folder, entropy=FewCoins(seed)) as device:
            device.factors.data_dir = folder if seed < 3 else None  # a report takes the longest of it
            vectors, standings = [], []
            for number in range(T):
                vectors.append(bool(sent(device, number)[0].any()))
                standings.append(standing(device))
            n_vectors.append(sum(vectors))
            paid.add(tuple(standings))
            for name in kept_rounds(folder):
                reports.add(json.dumps({k: v for k, v in read_sum_report(folder, name).items() if k != "budget"}))
    assert {1, K} <= set(n_vectors) <= {0, 1, K}  # by chance a quarter, eleven of sixteen, and a sixteenth
    assert n_vectors.count(K) > 8
    assert len(paid) == 1
    assert len(reports) == T


def test_the_key_of_the_coins_is_deleted_with_the_series_and_another_series_has_another(tmp_path):
    with factor_device_in(tmp_path) as device:
        answered = entered(device, 0)
        _, first = sent(device, 0)
        assert str(first.key) not in repr(first) + repr(answered) + repr(device.factors)
        _, other = sent(device, 0, session="other")
        assert other.key != first.key
        series = series_of(answered.rounds, "session")
        assert device.factors.samples.n_begun(series) == 1
        points = answered.rounds.begin()
        answered.leave(answered.rounds.broadcast.write(1, points.released()))
        assert device.factors.samples.n_begun(series) == 0
        _, anew = sent(device, 1)
        assert (anew.n_before, anew.key == first.key) == (0, False)
        assert standing(device)[0] == 3  # whoever begins anew pays anew
    assert first.key not in (tmp_path / "samples.sqlite").read_bytes()


def test_another_question_under_the_name_of_a_series_is_not_paid_with_what_is_held_for_the_first(tmp_path):
    """Both forms: what is held for a cheap question would else pay for a dear one."""
    for form in ("sgd", "statistics"):
        folder = tmp_path / form
        folder.mkdir()
        with factor_device_in(folder) as device:
            device.factors.entered(invitation_to(0, form=form, privacy={"epsilon": 1.0, "delta": 1e-6})).admit()
            before = standing(device)
            dear = device.factors.entered(invitation_to(1, form=form, privacy={"epsilon": 8.0, "delta": 1e-6}))
            with pytest.raises(PeerViolationError, match="two questions have the name of one series"):
                dear.admit()
            assert standing(device) == before
            device.factors.entered(
                invitation_to(0, form=form, session="b", privacy={"epsilon": 8.0, "delta": 1e-6})
            ).admit()


def test_a_device_without_a_memory_of_coins_refuses_before_anything_is_held(tmp_path):
    with factor_device_in(tmp_path, samples=None) as device:
        with pytest.raises(PolicyRefusalError, match="keeps no memory of its coins"):
            entered(device, 0).admit()
        assert standing(device) == (0, 0)


def test_an_embedding_out_of_the_set_is_refused_where_a_round_begins(tmp_path):
    with factor_device_in(tmp_path) as device:
        asked = invitation_to(1, form="sgd")
        for value in (-1, 3 * 4096):
            changed = asked.public_input[:-4] + value.to_bytes(4, "little", signed=True)
            with pytest.raises(PeerViolationError, match="negative or too long"):
                device.factors.entered(replace(asked, public_input=changed))


def test_coins_are_counted_before_a_vector_leaves_and_the_file_is_its_owners(tmp_path):
    path = tmp_path / "samples.sqlite"
    with closing(SqliteSampleJournal(path)) as samples:
        assert samples.begin(b"a", b"k" * 32) == (b"k" * 32, 0)
    with closing(SqliteSampleJournal(path)) as samples:
        assert samples.begin(b"a", b"other" * 8) == (b"k" * 32, 1)
        assert (samples.n_begun(b"a"), samples.n_begun(b"b")) == (2, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_kept_model_says_of_which_form_it_is_and_one_that_is_none_is_refused(tmp_path):
    rounds = rounds_of(descent_question(), 5)
    kept = KeptModel.released(rounds, rounds.broadcast.write(3, rounds.begin().released()))
    assert (kept.largest, kept.centre) == (6, -3.0)
    path = keep_model(tmp_path, "a", kept)
    found = read_model(path)
    assert np.array_equal(found.model.vectors_q, rounds.first_points)
    assert found.largest == 6
    for largest in (0, "6", True, 1 << 20):
        path.write_text(json.dumps({**kept.as_tree(), "largest": largest}))
        with pytest.raises(NoModelError):
            read_model(path)
