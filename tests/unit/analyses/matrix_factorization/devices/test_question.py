"""The question to devices: what follows from it, and what is refused before anything costs."""

import numpy as np
import pytest
from factor_devices import N_ITEMS, PER_USER, factor_question
from rating_tables import made_up

from analyses.job.job import JobError
from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.devices.planned import factor_round_config, rounds_of
from analyses.matrix_factorization.devices.question import FactorQuestion, read_public_input
from analyses.matrix_factorization.devices.statistics_rounds import PRIOR
from analyses.matrix_factorization.horizontal import member_vector
from analyses.matrix_factorization.in_process import LocalMembers
from analyses.matrix_factorization.model import FactorModel
from analyses.sums.secure_sum import SumParams
from entropy import InsecureTestEntropy
from mpc.transcript import RoundId
from questions.reading import question_from_json, question_from_toml

TOML = """
analysis = "matrix-factorization"
record = "films"
items = ["alien", "brazil", "casablanca"]
ratings_per_user = 2
lower = 1
upper = 5
[privacy]
epsilon = 4.0
delta = 1e-6
"""


def test_a_file_may_hold_the_list_of_items_and_the_question_holds_its_digest():
    asked = question_from_toml(TOML)
    assert isinstance(asked, FactorQuestion)
    assert (asked.items, asked.items_digest) == (3, digest_of_items(["alien", "brazil", "casablanca"]))
    assert asked.middle == 3.0
    assert question_from_json(asked.canonical_json()) == asked
    numbered = question_from_toml(TOML.replace('["alien", "brazil", "casablanca"]', "3"))
    assert numbered.items_digest == digest_of_items(3)
    with pytest.raises(JobError, match="the same item appears more than once"):
        question_from_toml(TOML.replace("brazil", "alien"))
    plain = SumParams(analysis="secure-sum", record="steps", largest=1)
    assert question_from_json(plain.canonical_json()) == plain


def test_the_public_input_of_a_round_holds_question_and_model_and_others_are_told_apart():
    asked = factor_question()
    rounds = rounds_of(asked, 5)
    model = FactorModel.nearest(np.ones(N_ITEMS), np.full((N_ITEMS, 2), 0.5), 1 << 12)
    found, written = read_public_input(rounds.public_input(1, model))
    assert found == asked
    assert np.array_equal(rounds.model_before(1, written).vectors_q, model.vectors_q)
    assert read_public_input(b'{"analysis": "secure-sum"}') is None
    with pytest.raises(JobError, match="cannot be read"):
        read_public_input(rounds.public_input(1, model) + b"x")


@pytest.mark.parametrize(
    ("changes", "n_members", "words"),
    [
        ({}, 2, "at least 3 must take part"),
        ({"privacy": {"epsilon": 1.0, "delta": 0.25}}, 5, "privacy.delta"),
        ({"colluding": 4}, 5, "members, colluding, items"),
        ({"rank": 0, "rounds": 2}, 5, "parameters.n_rounds"),
        ({"items": 1 << 20, "items_digest": "0" * 64, "rank": 8, "rounds": 5}, 5, "a model of"),
    ],
)
def test_what_no_rounds_can_answer_is_refused(changes, n_members, words):
    with pytest.raises(JobError, match=words):
        rounds_of(factor_question(**changes), n_members)


def test_there_is_no_round_and_no_attempt_after_the_last():
    rounds = rounds_of(factor_question(), 5)
    identities = {f"walker-{i}": bytes([i]) * 32 for i in range(5)}
    for number, attempt in ((3, 0), (0, 1)):
        with pytest.raises(JobError, match="the question has 3 rounds and 1 attempts of each"):
            factor_round_config(rounds, RoundId("session", number, attempt), identities)


@pytest.mark.slow
def test_of_a_thousand_devices_a_fifth_drops_out_and_exactly_the_intended_noise_remains():
    """Offsets only; every device draws its own base and removable components."""
    n_items, n, n_gone = 800, 1000, 200
    asked = factor_question(items=n_items, items_digest=digest_of_items(n_items), rank=0, rounds=0, vanishing=n_gone)
    rounds = rounds_of(asked, n)
    noise = rounds.noise(0)
    assert (noise.levels[0], noise.kept_mu(n - n_gone)) == (n - n_gone, noise.mu)
    ratings, _ = made_up(n, n_items, PER_USER)
    devices = tuple(ratings.split_rows(n))
    gone = set(np.random.default_rng(1).choice(n, n_gone, replace=False).tolist())
    members = LocalMembers(rounds.plan, devices, PRIOR, InsecureTestEntropy("devices"), {0: gone})
    present = [one for place, one in enumerate(devices) if place not in gone]
    left = members(0, None) - sum(member_vector(rounds.plan, 0, None, one, PRIOR) for one in present)
    ratio = float(np.mean(left.astype(float) ** 2)) / (2 * noise.mu)
    assert abs(ratio - 1) < 0.15, ratio  # four standard deviations of 1600 numbers; a fifth too little is five away
    assert members.survivors == [n - n_gone]
