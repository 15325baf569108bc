"""Tallies of responses: the same however responses are divided, and no larger for more of them."""

import numpy as np
import pytest

from analyses.distribution.estimates.estimate import estimated
from analyses.distribution.estimates.frequencies import estimate, haar_frequencies
from analyses.distribution.estimates.tally import tally_of
from analyses.distribution.inquiry import DistributionParams, Inquiry
from analyses.distribution.methods import takes_choices
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

METHODS = ["wave", "direct", "hashed", "hadamard", "tree", "haar"]
N = 600


def inquiry_of(method):
    params = DistributionParams(range=(0.0, 1.0), buckets=32, bins=16, method=method, smoothing=1)
    return Inquiry(params, Odds.of_epsilon(2.0).favoured)


def answered(inquiry, n=N):
    mechanism, entropy = inquiry.response, InsecureTestEntropy("tally")
    values = np.arange(n) % (inquiry.params.n_inputs + 1)
    choices = PublicChoices(b"question", (f"d{i}" for i in range(n)))
    if isinstance(mechanism, Wave):
        return mechanism.respond(values, entropy), choices
    return mechanism.respond(values, choices, entropy), choices


def size_of(tally):
    """Return the bytes of all arrays that a tally holds."""
    return sum(
        part.nbytes if isinstance(part, np.ndarray) else size_of(part)
        for value in vars(tally).values()
        for part in (value if isinstance(value, list) else [value])
        if isinstance(part, np.ndarray) or type(part).__name__.endswith("Tally")
    )


@pytest.mark.parametrize("method", METHODS)
def test_it_does_not_matter_how_responses_are_divided(method):
    inquiry = inquiry_of(method)
    responses, choices = answered(inquiry)
    results, sizes = [], []
    for step in (N, 7):
        tally = tally_of(inquiry.response)
        sizes.append(size_of(tally))
        for start in range(0, N, step):
            part = choices.part(start, start + step) if takes_choices(inquiry.response) else None
            tally.add(responses[start : start + step], part)
        sizes.append(size_of(tally))
        assert tally.n_responses == N
        results.append(estimated(inquiry, tally))
    assert results[0] == results[1]
    assert len(set(sizes)) == 1
    assert sizes[0] > 0


@pytest.mark.parametrize("method", ["direct", "hashed"])
def test_the_tally_of_an_oracle_gives_its_estimate(method):
    inquiry = inquiry_of(method)
    responses, choices = answered(inquiry)
    tally = tally_of(inquiry.response)
    tally.add(responses, choices)
    support = tally.counts if method == "direct" else tally.support
    assert support.sum() >= N
    expected = estimate(inquiry.response, responses, choices).frequencies
    assert np.argmax(support) == np.argmax(expected)


def test_the_tally_of_haar_responses_gives_their_frequencies():
    inquiry = inquiry_of("haar")
    responses, choices = answered(inquiry)
    tally = tally_of(inquiry.response)
    tally.add(responses, choices)
    assert np.allclose(tally.frequencies, haar_frequencies(inquiry.response, responses, choices))
