"""The vectors of local responses against the library; `test_vectors` compares the file with its generator."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.wave import Wave

FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS = json.loads((FOLDER / "wave.json").read_text())


def named(prefix):
    chosen = [vector for vector in VECTORS if vector["name"].startswith(prefix)]
    assert chosen
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["name"])


class GivenBytes:
    """Entropy that is read once, for one stream."""

    is_secure = False

    def __init__(self, data):
        self._left = data

    def read(self, n_bytes):
        given, self._left = self._left[:n_bytes], self._left[n_bytes:]
        assert len(given) == n_bytes
        return given


def wave_of(vector):
    odds = Odds.of_epsilon(Fraction(vector["epsilon"]))
    return Wave.of_shape(vector["shape"], vector["n_inputs"], odds, has_empty=vector["has_empty"])


@named("respond_")
def test_an_epsilon_gives_weights_and_a_stream_gives_responses(vector):
    wave = wave_of(vector)
    assert (str(wave.odds.favoured), str(wave.other), str(wave.total)) == (
        vector["favoured"],
        vector["other"],
        vector["total"],
    )
    assert [str(weight) for weight in wave.window] == vector["window"]
    assert wave.n_outputs == vector["n_outputs"]
    draws = wave.draw(GivenBytes(bytes.fromhex(vector["stream_key"])), len(vector["values"]))
    assert [str(draw) for draw in draws] == vector["draws"]
    assert wave.outputs_of(np.array(vector["values"]), draws).tolist() == vector["outputs"]


@named("choose_")
def test_what_is_public_of_a_slot_follows_from_question_and_name(vector):
    choices = PublicChoices(bytes.fromhex(vector["question"]), vector["respondents"])
    assert choices.levels(vector["n_levels"]).tolist() == vector["levels"]
    assert choices.rows(vector["n_rows"]).tolist() == vector["rows"]
    assert choices.hashed(np.array(vector["values"]), vector["n_buckets"]).tolist() == vector["hashed"]


@named("bad_")
def test_bad_epsilons_sizes_and_values_are_refused(vector):
    def respond():
        wave_of(vector).outputs_of(np.array(vector["values"]), np.array([0]))

    with pytest.raises(ValueError, match=r"epsilon|inputs|outside") as caught:
        respond()
    assert type(caught.value).__name__ == vector["error"]
