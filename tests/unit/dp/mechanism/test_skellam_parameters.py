from dp.draw.skellam import MAX_MU
from dp.mechanism.skellam_parameters import TOP_RUNG, rung


def test_the_ladder_of_parameters_ascends_in_even_steps_of_less_than_a_millionth_from_2_to_the_samplers_limit():
    edges = [1, 2, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) - 1, 2 << 20, TOP_RUNG - 1, TOP_RUNG]
    rungs = [rung(index) for index in edges]
    assert rungs == sorted(set(rungs))
    assert (rungs[0], rungs[-1]) == (2, MAX_MU)
    assert all(parameter % 2 == 0 for parameter in rungs)
    for index in (1 << 20, 5 << 20, TOP_RUNG - 2):
        assert rung(index) < rung(index + 1) <= rung(index) * (1 + 2.0**-20)
