"""The form sgd over devices: what follows from a question, what a vector moves, and what n of them cost."""

import itertools

import numpy as np
import pytest
from factor_devices import DECLARED, N_ITEMS, descent_question, factor_question

from analyses.job.job import JobError
from analyses.matrix_factorization.descent.descent_plan import DescentParams
from analyses.matrix_factorization.devices.planned import factor_round_config, rounds_of
from analyses.matrix_factorization.devices.record import Coins, DeclaredRatings, UsedRatings, device_vector
from analyses.matrix_factorization.model import FactorModel
from dp.cost.accounting import epsilon_of_rdp
from dp.cost.events.record import rdp_of
from dp.cost.views import VIEWS
from mpc.errors import PeerViolationError
from mpc.transcript import RoundId
from questions.factors import AskedFactors
from questions.forecast import plan_of
from questions.reading import question_from_json, question_from_toml
from results.registry import device_text

TOML = """
analysis = "matrix-factorization"
form = "sgd"
record = "films"
items = ["alien", "brazil", "casablanca"]
ratings_per_user = 2
lower = 1
upper = 5
steps = 6
sampling_rate = 0.5
theta = 2
[privacy]
epsilon = 4.0
delta = 1e-6
"""


def test_the_plan_is_that_of_the_local_setting_and_ratings_count_from_the_lower_bound():
    asked = question_from_toml(TOML)
    assert question_from_json(asked.canonical_json()) == asked
    rounds = rounds_of(asked, 5)
    p = rounds.plan.params
    assert isinstance(p, DescentParams)
    assert (p.setting, p.unit, p.noise, p.rank, p.largest, p.theta, p.steps) == ("local", "user", "once", 4, 4, 2, 6)
    assert (rounds.n_rounds, rounds.largest, asked.middle) == (6, 4, 1.0)
    assert p.divisor == pytest.approx(20 * (4 * 0.5 * 2 * 5 / 3 + (2 * rounds.plan.mu) ** 0.5 / p.units))
    assert plan_of(asked, 5).forecast.not_forecast


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rounds = 3", 'rounds: the form "sgd" has no such parameter'),
        ("centre = 3.0", 'centre: the form "sgd" has no such parameter'),
        ('noise = "party"', "its own noise would hide its contribution"),
        ("rank = 0", "rank and theta are at least 1"),
        ("most_participations = 7", "most_participations"),
    ],
)
def test_what_this_form_has_not_or_cannot_have_is_refused(line, words):
    with pytest.raises(JobError, match=words):
        rounds_of(question_from_toml(TOML.replace("steps = 6", f"steps = 6\n{line}")), 5)


def test_the_other_form_has_none_of_its_fields():
    for field, value in (("steps", 3), ("theta", 3), ("sampling_rate", 0.5), ("noise", "once")):
        with pytest.raises(ValueError, match=f'{field}: the form "statistics" has no such parameter'):
            factor_question(**{field: value})


def test_a_large_roster_has_few_levels_of_noise():
    asked = descent_question(vanishing=40, privacy={"epsilon": 8.0, "delta": 1e-4})
    noise = rounds_of(asked, 200).noise(0)
    assert noise.levels[0] == 160
    assert len(noise.levels) < 8
    config = factor_round_config(
        rounds_of(asked, 200), RoundId("s", 0, 0), {f"w{i:03}": bytes([i]) * 32 for i in range(200)}
    )
    assert config.surplus_levels == noise.levels


# -- what it costs -----------------------------------------------------------------------------------------------------


def charged_curve(rounds, n_vectors):
    """The sum of the curves of what a device has paid for so many vectors, one in each round and more beyond."""
    found = 0.0
    for n_before in range(n_vectors):
        held = rounds.charges(min(n_before, rounds.n_rounds - 1), n_before)
        charge = rounds.charge_of(n_before, n_before)
        assert (charge in held) if charge is not None else not held
        found = found + (0.0 if charge is None else held[charge].curve)
    return found


@pytest.mark.parametrize("changes", [{}, {"sampling_rate": 0.1, "most_participations": 1}, {"sampling_rate": 1.0}])
def test_after_every_vector_what_is_paid_covers_both_views_and_in_the_end_it_is_what_the_plan_says(changes):
    if changes.get("sampling_rate") == 1.0:
        changes["most_participations"] = None
    rounds = rounds_of(descent_question(colluding=1, **changes), 5)
    k = rounds.most_participations
    for n in range(1, rounds.n_rounds + 2):
        paid = charged_curve(rounds, n)
        of_step = {view: rdp_of(rounds.plan.whole_step(view)) for view in VIEWS}
        assert (paid >= min(n, k) * of_step["coalition"] * (1 - 1e-12)).all()
        assert (paid >= min(n, k) * of_step["coordinator"] * (1 - 1e-12)).all()
    whole = charged_curve(rounds, rounds.n_rounds)
    for view in VIEWS:
        assert (whole >= sum(map(rdp_of, rounds.events(view))) * (1 - 1e-12)).all()
    assert np.allclose(whole, sum(map(rdp_of, rounds.events("coalition"))), rtol=1e-9)
    assert epsilon_of_rdp(whole, rounds.n_rounds, 1e-6).epsilon >= rounds.cost_of_all().epsilon(1e-6).epsilon * (
        1 - 1e-9
    )


# -- neighbours --------------------------------------------------------------------------------------------------------

VALUES = (None, -3.0, 0.3, 3.0)
SMALL = DeclaredRatings(2, -3.0, 3.0, most=2)


def vector_of(rounds, model, row, key, n_before):
    places = np.array([j for j, x in enumerate(row) if x is not None], dtype=np.int64)
    values = np.array([x for x in row if x is not None])
    return device_vector(rounds, 1, model, SMALL, UsedRatings(places, values), Coins(key, n_before))


@pytest.mark.parametrize("theta", [1, 2])
def test_all_neighbours_of_a_device_move_a_vector_by_no_more_than_is_paid_for(theta):
    """Whatever it has rated, whatever is broadcast, whatever its coins are: it is there, gone, or another."""
    asked = descent_question(items=2, rank=1, theta=theta, sampling_rate=0.5, steps=2, most_participations=1)
    rounds = rounds_of(asked, 5)
    longest = int((rounds.largest**0.5) * rounds.broadcast.units)
    moved, keys = rounds.noise(0).sensitivities, [bytes([i]) * 32 for i in range(3)]
    rows, most, n_zero, n_vectors = tuple(itertools.product(VALUES, repeat=2)), 0, 0, 0
    for corner in itertools.product((0, longest), repeat=2):
        model = FactorModel(np.zeros(2, dtype=np.int64), np.array(corner)[:, None], rounds.broadcast.units)
        for key in keys:
            vectors = np.stack([vector_of(rounds, model, row, key, 0) for row in rows])
            later = np.stack([vector_of(rounds, model, row, key, 1) for row in rows])
            assert not (vectors.any(axis=1) & later.any(axis=1)).any()  # one participation in all
            n_zero += not vectors.any()
            n_vectors += 1
            most = max(most, int((vectors**2).sum(axis=1).max()))
            assert (vectors**2).sum(axis=1).max() <= moved["coordinator"].squared_l2
            assert np.abs(vectors).sum(axis=1).max() <= moved["coordinator"].l1
            replaced = vectors[:, None] - vectors[None]
            assert (replaced**2).sum(axis=2).max() <= moved["coalition"].squared_l2
            assert np.abs(replaced).sum(axis=2).max() <= moved["coalition"].l1
    assert 0 < n_zero < n_vectors  # of some keys the first coin shows tails, whatever is rated
    assert most > 0.98 * moved["coordinator"].squared_l2  # attained


def test_whether_a_device_is_sampled_depends_on_its_key_alone():
    rounds = rounds_of(descent_question(items=2, rank=1), 5)
    model = FactorModel(np.zeros(2, dtype=np.int64), np.zeros((2, 1), dtype=np.int64), rounds.broadcast.units)
    for key in (bytes([i]) * 32 for i in range(8)):
        sampled = {
            tuple(bool(vector_of(rounds, model, row, key, n).any()) for n in range(4))
            for row in ((3.0, None), (3.0, 3.0), (None, 0.3))
        }
        assert len(sampled) == 1


# -- at the coordinator ------------------------------------------------------------------------------------------------


def test_the_model_of_another_round_or_out_of_the_set_is_refused_and_there_is_none_before_round_0():
    rounds = rounds_of(descent_question(), 5)
    model = rounds.begin().released()
    written = rounds.broadcast.write(1, model)
    assert np.array_equal(rounds.model_before(1, written).vectors_q, rounds.first_points)
    assert rounds.model_before(0, b"") is None
    with pytest.raises(PeerViolationError, match="another round"):
        rounds.model_before(2, written)
    with pytest.raises(PeerViolationError, match="before there are any"):
        rounds.model_before(0, written)
    with pytest.raises(PeerViolationError, match="negative or too long"):
        rounds.model_before(1, written[:-4] + b"\xff\xff\xff\xff")


def test_the_answer_says_which_form_it_is_and_can_be_read_by_people():
    names = {f"walker-{i}": bytes([i]) * 32 for i in range(5)}
    asked = AskedFactors(descent_question(grace_s=2.0), "session", names)
    assert (asked.grace_s, AskedFactors(descent_question(), "session", names).grace_s) == (2.0, None)
    assert "grace_s" not in descent_question().canonical_json()  # as before there was one
    asked.end_early("nobody came")
    answer = asked.answer()
    assert (answer["form"], answer["largest"], answer["rounds_planned"]) == ("sgd", 6, 4)
    text = device_text(answer)
    assert "form sgd" in text
    assert "lengths of items' vectors" in text
    assert set(answer["offsets"]) == {0}
    assert N_ITEMS == len(answer["vectors"]) == DECLARED.n_items
