import json
from fractions import Fraction

import attr
import numpy as np
import pytest
from dp_accounting import DpEvent, GaussianDpEvent

from dp.cost.accounting import Adjacency
from dp.cost.events.discrete_gaussian import (
    DiscreteGaussianDpEvent,
    DiscreteGaussianShiftsDpEvent,
    DiscreteGaussianVectorDpEvent,
)
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent, LaplaceSharesDpEvent
from dp.cost.events.event import renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.record import UnknownEventError, event_from, rdp_of, record_of
from dp.cost.events.sampled_bits import SampledBitsDpEvent
from dp.cost.events.sampling import BoundedSampledDpEvent, PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent, SkellamVectorDpEvent
from dp.cost.events.sketch import CardinalitySketchDpEvent
from dp.mechanism.gram import NoisyGram

EVENT = SkellamDpEvent(Fraction(10**40, 3), Fraction(1, 10**60), Fraction(0), Fraction(7, 9), Adjacency.REPLACE_ONE)
LAPLACE = DiscreteLaplaceDpEvent(2, Fraction(7, 2), Adjacency.ADD_OR_REMOVE_ONE)


@pytest.mark.parametrize(
    "event",
    [
        EVENT,
        NoisyGram(3, 100, 5, 2, 10**6).events("coordinator")[0],
        NoisyGram(3, 100, 5, 2, 2).events("coalition")[0],
        SkellamVectorDpEvent.knowing(EVENT, 12, Fraction(7, 2)),
        PoissonSampledDpEvent(
            SkellamVectorDpEvent.knowing(attr.evolve(EVENT, adjacency=Adjacency.ADD_OR_REMOVE_ONE), 3, Fraction(9)),
            Fraction(1, 100),
        ),
        DiscreteGaussianDpEvent(Fraction(3), Adjacency.REPLACE_ONE),
        DiscreteGaussianVectorDpEvent(Fraction(3), Adjacency.REPLACE_ONE, 100, Fraction(10**6)),
        LAPLACE,
        RandomizedResponseDpEvent(4, Fraction(1, 2)),
        CardinalitySketchDpEvent(4096, 2, 300, 12, 5, Adjacency.ADD_OR_REMOVE_ONE),
        PoissonSampledDpEvent(LAPLACE, Fraction(1, 100)),
        BoundedSampledDpEvent(PoissonSampledDpEvent(LAPLACE, Fraction(1, 100)), 20, 3),
        SkellamShiftsDpEvent(3, 2, Fraction(7, 2), Adjacency.REPLACE_ONE),
        LaplaceSharesDpEvent(3, 2, Fraction(7, 5), Fraction(1, 3), Adjacency.REPLACE_ONE),
        DiscreteGaussianShiftsDpEvent(1, 4, Fraction(9), Adjacency.ADD_OR_REMOVE_ONE),
        SampledBitsDpEvent(Fraction(3, 5), 3, Fraction(1, 4)),
    ],
)
def test_an_event_comes_back_exactly_from_its_json(event):
    back = event_from(json.loads(json.dumps(record_of(event))))
    assert back == event
    assert [type(v) for v in vars_of(back)] == [type(v) for v in vars_of(event)]


def vars_of(event):
    return [getattr(event, name) for name in type(event).__slots__ if not name.startswith("__")]


def test_the_curve_is_that_of_the_event():
    for event in (EVENT, LAPLACE):
        assert np.array_equal(rdp_of(event), renyi_curve(event))


def test_an_event_without_a_record_is_refused_by_its_class():
    with pytest.raises(UnknownEventError, match="GaussianDpEvent"):
        record_of(GaussianDpEvent(1.0))
    with pytest.raises(UnknownEventError, match="DpEvent"):
        rdp_of(DpEvent())


@pytest.mark.parametrize(
    "changes",
    [
        {"event": "wish"},
        {"event": None},
        {"event": ["skellam"]},
        {"squares": "-1"},
        {"squares": "1/0"},
        {"squares": "nan"},
        {"squares": "1_0"},
        {"squares": 0.5},
        {"squares": True},
        {"squares": None},
        {"squares": -3},
        {"squares": "9" * 10_000},
        {"adjacency": "next_door"},
        {"more": 1},
    ],
)
def test_a_record_that_we_did_not_write_is_refused(changes):
    with pytest.raises(UnknownEventError):
        event_from({**record_of(EVENT), **changes})


def test_a_sampled_event_of_the_wrong_neighbours_is_refused():
    record = record_of(PoissonSampledDpEvent(LAPLACE, Fraction(1, 100)))
    record["release"]["adjacency"] = "replace_one"
    with pytest.raises(UnknownEventError):
        event_from(record)


@pytest.mark.parametrize("changes", [{"shared_phantoms": 0}, {"floor": 0}, {"n_sketches": 0}, {"own_phantoms": -1}])
def test_a_record_of_sketches_that_hide_nothing_is_refused(changes):
    record = record_of(CardinalitySketchDpEvent(64, 2, 3, 1, 1, Adjacency.REPLACE_ONE))
    assert event_from(record).n_sketches == 64
    with pytest.raises(UnknownEventError, match="event holds a value that is not a valid cost"):
        event_from({**record, **changes})
