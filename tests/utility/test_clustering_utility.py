"""The loss of clustering by private membership estimators, on a mixture of Gaussians."""

import pytest

from bench.analyses.clustering import ESTIMATORS, Comparison
from bench.datasets.clustering_tables import mixed_gaussian


@pytest.mark.slow
@pytest.mark.parametrize("n_owners", [2, 4])
def test_counting_inside_mpc_beats_every_other_counting_and_loses_at_most_twice_what_central_privacy_does(n_owners):
    comparison = Comparison(mixed_gaussian(8000), n_owners, runs=3)
    mpc, central = comparison.counted("mpc", 1.0), comparison.central(1.0)
    assert mpc.loss <= 2 * central.loss
    assert mpc.v_measure > 0.9
    for way, (name, options) in ESTIMATORS.items():
        other = comparison.counted(name, 1.0, options)
        if other is None:  # the plan refuses it: there would be nothing but noise
            continue
        # The noise of sketches is small beside that of the centres, so a draw may favour them by a little.
        assert mpc.loss < other.loss * (1.1 if way == "fm-sketch" else 0.9), way
