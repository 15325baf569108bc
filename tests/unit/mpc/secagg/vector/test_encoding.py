import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy import InsecureTestEntropy, SystemEntropy
from mpc.errors import LocalFaultError, ShapeError
from mpc.secagg.errors import EncodingOverflowError
from mpc.secagg.vector.encoding import Rounding, VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.secagg.vector.prime_group import PrimeGroup


class NoEntropy:
    is_secure = False

    def read(self, n_bytes):
        raise AssertionError("no randomness is due")


def encode(encoding, vector, weight=None):
    return encoding.encode(vector, SystemEntropy(), weight)


def test_values_are_scaled_and_rounded_toward_zero():
    encoding = VectorEncoding(4, 2.0, units=10)
    encoded = encoding.encode([0.19, -0.19, 1.0, -2.0], NoEntropy())
    assert encoded.values.tolist() == [1, -1, 10, -20]
    assert (encoded.clipped_fraction, encoded.norm_was_clipped) == (0.0, False)


def test_what_lies_outside_is_clipped_and_counted():
    encoded = encode(VectorEncoding(4, 1.0, units=8), [0.5, 1.5, -3.0, 1.0])
    assert encoded.values.tolist() == [4, 8, -8, 8]
    assert encoded.clipped_fraction == 0.5


def test_counts_of_what_was_clipped_are_not_printed():
    printed = repr(encode(VectorEncoding(4, 1.0), [9.0, 9.0, 9.0, 0.0]))
    assert printed == "EncodedVector()"


def test_a_long_vector_is_shortened_to_its_norm():
    encoded = encode(VectorEncoding(2, 10.0, units=1000, norm_clip=1.0), [30.0, 40.0])
    assert encoded.norm_was_clipped
    assert encoded.values == pytest.approx([600, 800], abs=1)
    assert (encoded.values**2).sum() <= 1_000_000
    assert not encode(VectorEncoding(2, 10.0, norm_clip=50.1), [30.0, 40.0]).norm_was_clipped


def test_huge_values_do_not_overflow_the_norm():
    encoded = encode(VectorEncoding(2, 10.0, units=1000, norm_clip=1.0), [3e200, 4e200])
    assert encoded.values == pytest.approx([600, 800], abs=1)


def test_stochastic_rounding_is_right_on_average():
    """10,000 values of 0.3 units: the mean errs by 0.0046 (one s.d.)."""
    encoding = VectorEncoding(10_000, 1.0, units=1, rounding=Rounding.STOCHASTIC)
    values = encode(encoding, np.full(10_000, 0.3)).values
    assert set(values.tolist()) == {0, 1}
    assert values.mean() == pytest.approx(0.3, abs=0.025)
    assert encode(encoding, np.full(10_000, -0.3)).values.mean() == pytest.approx(-0.3, abs=0.025)
    repeated = [encoding.encode(np.full(10_000, 0.3), InsecureTestEntropy("r")).values for _ in range(2)]
    assert np.array_equal(*repeated)
    assert not np.array_equal(values, repeated[0])


def test_stochastic_rounding_can_exceed_the_published_bound_but_not_ours():
    """n = 4, three units, all entries 1/2: all round up with probability 1/16, squared norm 16 > 3^2 + 4 [SPCA24]."""
    encoding = VectorEncoding(4, 1.0, units=3, rounding=Rounding.STOCHASTIC, norm_clip=1.0)
    norms = [int((encode(encoding, [0.5] * 4).values ** 2).sum()) for _ in range(300)]
    assert max(norms) == 16
    assert encoding.squared_norm_bound == 25 == (3 + 2) ** 2


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("rotation", [None, "label"])
@settings(deadline=None)
@given(data=st.data())
def test_no_integers_are_longer_or_larger_than_stated(data, rounding, rotation):
    length = data.draw(st.integers(1, 20))
    vector = data.draw(st.lists(st.floats(-100, 100), min_size=length, max_size=length))
    encoding = VectorEncoding(length, 3.0, units=7, rounding=rounding, norm_clip=5.0, rotation=rotation)
    values = encode(encoding, vector).values
    encoding.check_values(values)
    assert int((values**2).sum()) <= encoding.squared_norm_bound
    assert int(np.abs(values).max()) <= encoding.largest_element


@pytest.mark.parametrize("rotation", [None, "label"])
def test_the_sum_of_encoded_vectors_decodes_to_the_sum(rotation):
    vectors = np.random.default_rng(5).normal(size=(6, 13))
    encoding = VectorEncoding(13, 50.0, units=1 << 20, rotation=rotation)
    total = sum(encode(encoding, vector).values for vector in vectors)
    error = np.abs(encoding.decode_sum(total) - vectors.sum(axis=0)).max()
    assert error <= 6 * math.sqrt(16) / (1 << 20)


def test_rotation_spreads_what_one_entry_holds_so_that_less_is_clipped():
    spike = np.zeros(1000)
    spike[3] = 10.0
    plain = encode(VectorEncoding(1000, 1.0, units=1000), spike)
    rotated = encode(VectorEncoding(1000, 1.0, units=1000, rotation="label"), spike)
    assert (plain.clipped_fraction, rotated.clipped_fraction) == (0.001, 0.0)


def test_weights_multiply_and_travel_as_the_last_element():
    encoding = VectorEncoding(3, 2.0, units=100, largest_weight=50)
    first, second = encode(encoding, [1.0, -0.5, 2.0], 10), encode(encoding, [0.0, 0.5, 1.0], 30)
    assert first.values.tolist() == [1000, -500, 2000, 10]
    total = first.values + second.values
    assert encoding.total_weight(total) == 40
    assert (encoding.decode_sum(total) / 40).tolist() == [0.25, 0.25, 1.25]


@pytest.mark.parametrize("weight", [None, -1, 51])
def test_weights_that_do_not_fit_are_refused_and_not_shown(weight):
    encoding = VectorEncoding(3, 2.0, largest_weight=50)
    with pytest.raises(LocalFaultError) as caught:
        encode(encoding, [0.0] * 3, weight)
    assert str(weight) not in str(caught.value).replace("0..50", "")
    with pytest.raises(LocalFaultError, match="if and only if"):
        encode(VectorEncoding(3, 2.0), [0.0] * 3, 5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_refused(bad):
    with pytest.raises(LocalFaultError, match="not finite"):
        encode(VectorEncoding(3, 2.0), [0.0, bad, 1.0])


def test_another_length_is_refused():
    with pytest.raises(ShapeError, match="takes 3 entries"):
        encode(VectorEncoding(3, 2.0), [0.0, 1.0])
    with pytest.raises(ShapeError):
        VectorEncoding(3, 2.0).check_values(np.zeros(2, dtype=np.int64))
    with pytest.raises(ShapeError):
        VectorEncoding(3, 2.0).check_values(np.zeros(3))


@pytest.mark.parametrize("value", [3, -3])
def test_integers_beyond_the_proof_are_refused(value):
    with pytest.raises(EncodingOverflowError, match="the absolute value of an element is larger than 2"):
        VectorEncoding(3, 2.0).check_values(np.array([0, value, 0], dtype=np.int64))


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize(("clip", "units"), [(0.1, 3), (0.1, 10), (0.7, 10), (1e-3, 1000), (2.5, 1 << 40)])
def test_the_largest_entry_is_attained_and_exact(rounding, clip, units):
    encoding = VectorEncoding(1, clip, units=units, rounding=rounding)
    exact = Fraction(clip) * units
    assert encoding.largest_entry == (math.floor(exact) if rounding is Rounding.TOWARD_ZERO else math.ceil(exact))
    for _ in range(20):
        assert abs(int(encode(encoding, [clip]).values[0])) <= encoding.largest_entry


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize(("clip", "units"), [(0.7, 10), (0.07, 100), (8.2, 10), (1.1, 10), (2.0**-1074, 1 << 52)])
def test_an_entry_at_the_bound_never_exceeds_what_its_member_checks(rounding, clip, units):
    """In floating point 0.7 times 10 is 7, and exactly it is less: a member with such a value refused its own vector.

    Beside entries that are small, the norm does not show it.
    """
    encoding = VectorEncoding(3, clip, units=units, rounding=rounding)
    for value in (clip, -clip, 5 * clip, -1e300):
        values = encode(encoding, [value, 0.0, 0.0]).values
        encoding.check_values(values)
        assert int((values**2).sum()) <= encoding.squared_norm_bound


@pytest.mark.parametrize("group", [RingGroup(64), PrimeGroup()])
def test_a_weight_times_an_entry_beyond_64_bits_is_refused_whatever_the_group(group):
    """2^41 times 2^52 wraps in the integers of 64 bits in which a member computes."""
    with pytest.raises(EncodingOverflowError, match="exceed 2\\^63 - 1"):
        VectorEncoding(1, 2.0**41, largest_weight=1 << 52).check_fits(group, 2)
    with pytest.raises(EncodingOverflowError, match="exceed 2\\^63 - 1"):
        VectorEncoding(1, 2.0**31, largest_weight=1 << 32)


@pytest.mark.parametrize("weight", [(1 << 32) - 1, 1 << 31, 1])
@pytest.mark.parametrize("group", [RingGroup(64), PrimeGroup()])
def test_the_largest_weighted_integers_are_summed_exactly(weight, group):
    """The largest element that there is: 2^31 times 2^32 - 1, just below 2^63."""
    encoding = VectorEncoding(2, 2.0**31, largest_weight=(1 << 32) - 1)
    values = encode(encoding, [2.0**31, -(2.0**31)], weight).values
    assert values.tolist() == [weight << 31, -weight << 31, weight]
    assert [int(v) for v in group.decode(group.encode(values))] == values.tolist()


@pytest.mark.parametrize("group", [RingGroup(16), RingGroup(24)])
def test_fitting_is_decided_to_the_unit(group):
    per_member = group.largest // 10
    VectorEncoding(1, float(per_member)).check_fits(group, 10, group.largest - 10 * per_member)
    with pytest.raises(EncodingOverflowError, match=f"is {group.largest}"):
        VectorEncoding(1, float(per_member)).check_fits(group, 10, group.largest - 10 * per_member + 1)
    with pytest.raises(EncodingOverflowError):
        VectorEncoding(1, float(per_member + 1)).check_fits(group, 10)


def test_the_weight_itself_must_fit_too():
    with pytest.raises(EncodingOverflowError):
        VectorEncoding(1, 0.5, largest_weight=4000).check_fits(RingGroup(16), 10)
    VectorEncoding(1, 0.5, largest_weight=3000).check_fits(RingGroup(16), 10)


@pytest.mark.parametrize(
    "fields",
    [
        {"length": 0, "clip": 1.0},
        {"length": 1, "clip": 0.0},
        {"length": 1, "clip": math.inf},
        {"length": 1, "clip": math.nan},
        {"length": 1, "clip": 1.0, "units": 0},
        {"length": 1, "clip": 1.0, "norm_clip": -1.0},
        {"length": 1, "clip": 1.0, "largest_weight": 0},
        {"length": 1, "clip": 4.0, "units": 1 << 52},
    ],
)
def test_senseless_rules_do_not_exist(fields):
    with pytest.raises(LocalFaultError):
        VectorEncoding(**fields)


def test_kinds_are_what_policies_name():
    kinds = {VectorEncoding(1, 1.0, rounding=r, rotation=label).kind for r in Rounding for label in (None, "x")}
    assert kinds == {"toward-zero", "stochastic", "rotated-toward-zero", "rotated-stochastic"}


def test_every_parameter_is_in_the_bytes_of_the_rule():
    base = {"length": 3, "clip": 2.0}
    changes = [
        {}, {"length": 4}, {"clip": 2.5}, {"units": 2}, {"rounding": Rounding.STOCHASTIC},
        {"norm_clip": 1.0}, {"rotation": "none"}, {"largest_weight": 5},
    ]  # fmt: skip
    assert len({VectorEncoding(**{**base, **change}).encode_rule() for change in changes}) == len(changes)
