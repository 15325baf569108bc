import pytest

from results.drawing.axis import Axis


def test_a_linear_axis_has_room_beside_its_values_and_none_beyond_zero():
    assert Axis.over([2.0, 4.0]) == Axis(1.88, 4.12)
    assert Axis.over([2.0, 4.0], has_zero=True).lower == 0.0
    assert Axis.over([-2.0, float("nan"), float("inf")], has_zero=True).upper == 0.0


@pytest.mark.parametrize("values", [[], [0.0], [5.0], [-5.0], [float("nan")]])
def test_an_axis_over_one_value_or_none_has_a_length(values):
    axis = Axis.over(values)
    assert axis.lower < axis.upper
    assert axis.ticks(5)


def test_places_are_shares_of_the_axis_and_stay_on_it():
    axis = Axis(-1.0, 3.0)
    assert [axis.place(value) for value in (-9.0, -1.0, 0.0, 3.0, 9.0)] == [0.0, 0.0, 0.25, 1.0, 1.0]
    axis = Axis(1.0, 100.0, is_log=True)
    assert [axis.place(value) for value in (-1.0, 1.0, 10.0, 1000.0)] == pytest.approx([0.0, 0.0, 0.5, 1.0])


@pytest.mark.parametrize("axis", [Axis(0.0, 7.3), Axis(-1e-9, 3e-9), Axis(1e6, 1.00001e6), Axis(-4e12, 1e12)])
@pytest.mark.parametrize("most", [2, 5, 9])
def test_ticks_are_few_round_and_on_the_axis(axis, most):
    ticks = axis.ticks(most)
    assert 1 <= len(ticks) <= most + 1
    assert all(axis.lower <= value <= axis.upper for value, _ in ticks)
    assert len({said for _, said in ticks}) == len(ticks)


def test_ticks_of_factors_are_decades_or_finer_where_there_are_few():
    assert [said for _, said in Axis(1.0, 1e6, is_log=True).ticks(4)] == ["1", "100", "10,000", "1,000,000"]
    assert [said for _, said in Axis(0.15, 2.5, is_log=True).ticks(5)] == ["0.2", "0.5", "1", "2"]
    assert Axis.over_factors([0.5, -3.0, 8.0]) == Axis(0.25, 16.0, is_log=True)
