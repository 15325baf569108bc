"""Questions to devices are replayed on other records: answers look alike, and no record moves a sum beyond its promise.

Each question is planned at an epsilon. What a device contributes of any record, by its own reading, clipping and
encoding, is compared exactly, and its delta at that epsilon follows from the law of the noise that members add. In
batches the parties add it, by their own code.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from batches import batch_question
from virtual_time import run_in_virtual_time

from analyses.job.job import PrivacyTarget
from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.record import DeclaredRatings, RatedItems, device_vector, used_ratings
from analyses.sums.records import DeclaredRecord, Record
from analyses.sums.secure_sum import SumParams
from audit.whole_jobs.shifts import Shift, delta_at
from device.records import KeptRecord, UnusableRecordError
from dp.cost.views import VIEWS
from entropy import InsecureTestEntropy
from mpc.local.network import LocalNetwork, local_names
from mpc.secagg.config import Topology
from party.batches.member import PartyBatches

EPSILON, DELTA = 1.0, 1e-3
TARGET = PrivacyTarget(epsilon=EPSILON, delta=DELTA, view="coalition")
N_MEMBERS = 6
SUM = {"analysis": "secure-sum", "length": 3, "largest": 4}
QUESTIONS = {
    "sum": SUM,
    "mean, weighted": {"analysis": "secure-mean", "length": 2, "largest": 4, "largest_weight": 3},
    "histogram": {"analysis": "secure-histogram", "largest": 2, "edges": (0.0, 1.0, 2.0), "values": 2},
    "distribution": {"analysis": "secure-distribution", "largest": 1, "length": 1, "range": (0, 1), "buckets": 4},
}
VALUES = (0.0, 0.5, 1.0, 1.5, 4.0, -4.0, 1e9, -1e300, float("inf"), float("-inf"), float("nan"))


def params_of(name):
    return SumParams(record="steps", privacy=TARGET, **QUESTIONS[name])


def records(params):
    """What may stand in a record, and what makes it unusable."""
    n = params.length
    for values, weight in itertools.product(VALUES, (1, 3, -7, 10**30)):
        yield lambda of=values, w=weight: Record(np.full(n, of), w)
    yield lambda: Record(np.resize([4.0, -4.0], n), 3)
    yield lambda: Record(np.resize([-4.0, 4.0], n), 3)
    yield lambda: Record(np.zeros(n + 1), 1)
    yield lambda: Record(np.zeros(0), 1)

    def unreadable():
        raise UnusableRecordError("it is gone")

    def too_deep():
        raise RecursionError

    yield unreadable
    yield too_deep


def contributed(params):
    """What a device would add to the sum, of each record: the same bytes decide about its roundings."""
    declared = DeclaredRecord.as_asked(params)
    found = []
    for read in records(params):
        of = KeptRecord(declared, read).contribute(params)
        found.append(params.encoding.encode(of.vector, InsecureTestEntropy("roundings"), of.weight).values)
    return found


def assert_promise_is_kept(noise, vectors):
    """No two vectors, or, for the coordinator, none and zeros, show more than was promised; some are far apart."""
    shapes = {(one.shape, one.dtype) for one in vectors}
    assert len(shapes) == 1
    distinct = [np.array(one) for one in {tuple(one.tolist()) for one in vectors}]
    zeros = np.zeros_like(distinct[0])
    for view in VIEWS:
        pairs = itertools.permutations(distinct, 2) if view == "coalition" else ((zeros, one) for one in distinct)
        shifts = [Shift(noise, (tuple((b - a).tolist()),)) for a, b in pairs]
        worst = max(shifts, key=lambda shift: shift.attained(view))
        assert 0.4 < worst.attained(view) <= 1
        if view == "coalition":
            assert delta_at([worst], view, EPSILON) <= DELTA


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_record_of_a_device_moves_a_sum_beyond_its_promise_or_looks_different(name):
    params = params_of(name)
    noise = params.noise(Topology.complete(N_MEMBERS, 1))
    assert_promise_is_kept(noise, contributed(params))


def test_a_device_that_does_not_clip_is_noticed(monkeypatch):
    params = params_of("sum")
    noise, vectors = params.noise(Topology.complete(N_MEMBERS, 1)), contributed(params)
    with pytest.raises(AssertionError):
        assert_promise_is_kept(noise, [2 * one for one in vectors])


def test_no_ratings_of_a_device_move_a_round_beyond_its_bound():
    question = FactorQuestion(
        analysis="matrix-factorization", record="films", items=3, items_digest=digest_of_items(3), ratings_per_user=2,
        lower=-3, upper=3, rank=0, colluding=1, privacy=TARGET,
    )  # fmt: skip
    rounds, declared = rounds_of(question, N_MEMBERS), DeclaredRatings(3, -3.0, 3.0, most=3)
    rated = [
        np.array(values) for n in (0, 1, 3) for values in itertools.product((-1e300, -3.0, 0.0, 3.0, 1e9), repeat=n)
    ]
    vectors = [
        device_vector(rounds, 0, None, declared, used_ratings(declared, RatedItems(tuple(map(str, range(len(v)))), v)))
        for v in rated
    ]
    noise = rounds.noise(0)
    assert len({one.shape for one in vectors}) == 1
    for view, pairs in (
        ("coordinator", [(vectors[0], v) for v in vectors]),
        ("coalition", itertools.permutations(vectors, 2)),
    ):
        assert 0.4 < max(Shift(noise, (tuple((b - a).tolist()),)).attained(view) for a, b in pairs) <= 1


def test_the_parties_of_a_batch_add_the_noise_of_its_promise():
    # Each adds its part to its share of the sum; t that collude know theirs, and the rest keeps the promise.
    question = batch_question(colluding=1, privacy=TARGET, largest=4, largest_cohort=8)
    noise, n_parties = question.noise, len(question.parties)
    network = LocalNetwork(local_names(n_parties))
    added = []

    async def share_of(session):
        exact = question.group.encode(np.full(question.n_elements, 7))
        collection = SimpleNamespace(sum=SimpleNamespace(additive=exact.copy))
        asked = SimpleNamespace(question=question)
        packed = await PartyBatches._share(None, asked, session, collection, 1, range(1, n_parties + 1), ())
        whole = question.group.unpack(packed, question.n_elements).copy()
        question.group.deduct(whole, exact)
        added.append(question.group.decode(whole))

    run_in_virtual_time(network.run(dict.fromkeys(range(1, n_parties + 1), share_of)))
    assert len(added) == n_parties
    assert all(np.abs(part).max() > 0 for part in added)
    assert len({tuple(part.tolist()) for part in added}) == n_parties
    params = question.sum
    vectors = contributed(params)
    distinct = [np.array(one) for one in {tuple(one.tolist()) for one in vectors}]
    shifts = [Shift(noise, (tuple((b - a).tolist()),)) for a, b in itertools.permutations(distinct, 2)]
    worst = max(shifts, key=lambda shift: shift.attained("coalition"))
    assert 0.4 < worst.attained("coalition") <= 1
    assert noise.levels == (n_parties,)
    assert delta_at([worst], "coalition", EPSILON) <= DELTA
