from fractions import Fraction

import numpy as np
import pytest

from dp.cost.events.event import renyi_curve
from dp.cost.events.sampled_bits import SampledBitsDpEvent


def test_the_losses_of_sampled_bits_add_up_to_their_renyi_curve():
    event = SampledBitsDpEvent(Fraction(3, 4), 3, Fraction(1, 2))
    curve = renyi_curve(event)
    found = []
    for pair in event.losses():
        for losses in (pair.enters, pair.leaves):
            assert losses.masses.sum() == pytest.approx(1, abs=1e-9)
            found.append(np.log(np.sum(losses.masses * np.exp(losses.losses))))  # of order 2
    assert max(found) == pytest.approx(curve[0], rel=1e-6)
