import pickle

import numpy as np
import pytest
from matchings import ids_of

from entropy import InsecureTestEntropy
from mpc.errors import ShapeError
from mpc.matching.group import InvalidPointError, Scalar
from mpc.matching.oprf import MatchingFunction, Values

IDS = ids_of(range(5))
FUNCTION = MatchingFunction(b"b" * 32)


def draw(name):
    return Scalar.draw(InsecureTestEntropy(name))


def same(one, other):
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in ("seeds", "pads", "tags"))


def test_who_has_the_key_and_who_asks_blindly_get_the_same_values():
    key, blinding = draw("key"), draw("blinding")
    evaluated = key.multiply(FUNCTION.raised(IDS, blinding))
    assert same(FUNCTION.values_from(IDS, evaluated, blinding.inverse()), FUNCTION.values_under(IDS, key))


def test_values_depend_on_the_key_the_id_and_the_job():
    values = FUNCTION.values_under(IDS, draw("key"))
    assert len(np.unique(values.tags, axis=0)) == len(np.unique(values.seeds, axis=0)) == len(IDS)
    for other in (
        FUNCTION.values_under(IDS, draw("other")),
        MatchingFunction(b"c" * 32).values_under(IDS, draw("key")),
    ):
        assert not (values.tags == other.tags).all(axis=1).any()
        assert not (values.seeds == other.seeds).all(axis=1).any()
        assert not (values.pads == other.pads).any()


def test_the_points_of_another_job_are_other_points():
    assert not np.array_equal(MatchingFunction(b"c" * 32).points(IDS), FUNCTION.points(IDS))


def test_what_is_no_point_is_refused():
    with pytest.raises(InvalidPointError):
        FUNCTION.values_from(IDS, np.zeros_like(IDS), draw("blinding"))
    with pytest.raises(ShapeError):
        FUNCTION.values(IDS, IDS[1:])


def test_values_can_be_put_together_and_show_nothing():
    values, whole = FUNCTION.values_under(IDS, draw("key")), Values.empty(5)
    for place in (slice(0, 2), slice(2, 5)):
        whole.put(place, FUNCTION.values_under(IDS[place], draw("key")))
    assert same(values, whole)
    assert len(whole) == 5
    assert repr(values) == "Values()"


def test_the_key_of_a_function_cannot_be_stored():
    with pytest.raises(TypeError):
        pickle.dumps(draw("key"))
