"""The vectors of local responses, for `generate.py`: odds, windows, draws, responses, and what is public of a slot."""

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from dp.local_mechanism.odds import Odds
from dp.local_mechanism.public_choice import PublicChoices
from dp.local_mechanism.wave import Wave
from entropy import InsecureTestEntropy

Vector = dict[str, Any]

SHAPES = ("square", "trapezoid", "triangle")


def respond(name: str, shape: str, epsilon: str, n_inputs: int, has_empty: bool, values: list[int]) -> Vector:
    """All of some responses: from an epsilon and the values to the outputs."""
    wave = Wave.of_shape(shape, n_inputs, Odds.of_epsilon(Fraction(epsilon)), has_empty=has_empty)
    draws = wave.draw(InsecureTestEntropy(name), len(values))
    return {
        "name": name,
        "shape": shape,
        "epsilon": epsilon,
        "n_inputs": n_inputs,
        "has_empty": has_empty,
        "favoured": str(wave.odds.favoured),
        "other": str(wave.other),
        "window": [str(weight) for weight in wave.window],
        "total": str(wave.total),
        "n_outputs": wave.n_outputs,
        "stream_key": InsecureTestEntropy(name).read(32).hex(),
        "values": values,
        "draws": [str(draw) for draw in draws],
        "outputs": wave.outputs_of(np.array(values), draws).tolist(),
    }


def wave_vectors() -> Iterable[Vector]:
    for shape in SHAPES:
        for epsilon in ("1/2", "1", "4"):
            for has_empty in (False, True):
                values = [0, 1, 7, 15, *([16, 16] if has_empty else [15, 0])] * 2
                empty = "_with_empty_slots" if has_empty else ""
                name = f"respond_{shape}_{epsilon.replace('/', '_over_')}{empty}"
                yield respond(name, shape, epsilon, 16, has_empty, values)
    for epsilon in ("1/1024", "16"):
        yield respond(f"respond_at_{epsilon.replace('/', '_over_')}", "square", epsilon, 256, True, [0, 255, 256])
    question, respondents = hashlib.sha256(b"a question").digest(), [f"1/{slot}" for slot in range(6)]
    choices = PublicChoices(question, respondents)
    yield {
        "name": "choose_level_row_and_hash",
        "question": question.hex(),
        "respondents": respondents,
        "n_levels": 4,
        "levels": choices.levels(4).tolist(),
        "n_rows": 64,
        "rows": choices.rows(64).tolist(),
        "values": [0, 1, 2, 3, 16383, 7],
        "n_buckets": 4,
        "hashed": choices.hashed(np.array([0, 1, 2, 3, 16383, 7]), 4).tolist(),
    }
    asked = {"shape": "square", "epsilon": "1", "n_inputs": 16, "has_empty": True, "values": [0]}
    for what, changes, error in (
        ("epsilon_below_the_least", {"epsilon": "1/1025"}, "CalibrationError"),
        ("epsilon_above_the_largest", {"epsilon": "17"}, "CalibrationError"),
        ("one_input", {"n_inputs": 1}, "CalibrationError"),
        ("too_many_inputs", {"n_inputs": 16385}, "CalibrationError"),
        ("value_beyond_the_empty_one", {"values": [17]}, "ValueError"),
        ("empty_value_where_none_is", {"has_empty": False, "values": [16]}, "ValueError"),
        ("negative_value", {"values": [-1]}, "ValueError"),
    ):
        yield {"name": f"bad_{what}", **asked, **changes, "error": error}
