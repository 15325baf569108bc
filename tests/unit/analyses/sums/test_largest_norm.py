"""Sums of vectors of a largest norm: what a member's integers are, what noise covers, and what questions refuse."""

import numpy as np
import pytest
from pydantic import ValidationError

from analyses.sums.secure_sum import SumParams
from entropy import SystemEntropy

FIELDS = {"analysis": "secure-sum", "record": "gradient", "length": 100, "largest": 1.0, "units": 1000}


def asked(**changes) -> SumParams:
    return SumParams.model_validate({**FIELDS, **changes})


@pytest.mark.parametrize("scale", [0.01, 0.2, 1.0, 1e300])
def test_a_vector_is_shortened_to_what_the_noise_covers(scale):
    params = asked(largest_norm=2.0)
    vector = np.linspace(-1, 1, 100) * scale
    integers = params.encoding.encode(vector, SystemEntropy()).values
    assert int(integers @ integers) <= params.sensitivities["coordinator"].squared_l2 == 2000**2
    assert params.sensitivities["coalition"].squared_l2 == 4 * 2000**2
    if scale <= 0.2:
        assert integers.tolist() == np.trunc(vector * 1000).tolist()


def test_the_noise_is_that_of_the_norm_and_not_of_all_entries():
    assert asked().sensitivities["coordinator"].squared_l2 == 100 * 1000**2
    assert asked(largest_norm=50.0).sensitivities["coordinator"].squared_l2 == 100 * 1000**2


def test_questions_without_a_norm_are_written_and_read_as_before():
    assert "largest_norm" not in asked().canonical_json()
    assert SumParams.from_json(asked(largest_norm=2.0).canonical_json()) == asked(largest_norm=2.0)


@pytest.mark.parametrize(
    "changes", [{"largest_norm": 0.0005}, {"largest_norm": 0.0}, {"analysis": "secure-mean", "largest_weight": 3}]
)
def test_a_norm_below_a_unit_and_one_of_a_mean_are_refused(changes):
    with pytest.raises(ValidationError, match="largest_norm"):
        asked(**{"largest_norm": 1.0, **changes})
