"""One device in a matrix factorization, without a network: what it refuses, what it pays, what it keeps."""

import json
from dataclasses import replace

import numpy as np
import pytest
from devices import BUDGET
from factor_children import ROUNDS, factor_device_in, invitation_to, seeds_of
from factor_devices import DECLARED, N_ITEMS, factor_question, record_file
from pydantic import ValidationError

from analyses.job.job import JobError
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.record import DeclaredRatings, RatedItems
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import Regression
from analyses.matrix_factorization.serving.new_items import NewItems
from device.models import KeptModel, NoModelError, keep_model, newest_model, read_model
from device.ratings import KeptRatings, read_ratings
from device.recommend import recommended_items
from device.record_config import RatingsRecordConfig
from device.records import UnusableRecordError
from device.report import describe_sum_report, kept_rounds, read_sum_report
from dp.cost.views import MEMBER_UNIT
from ledger.books import BudgetExhaustedError, ChargeError
from ledger.budget import Budget
from mpc.errors import PeerViolationError
from mpc.secagg.errors import PolicyRefusalError


def standing(device):
    found = device.budget.standing()
    return found["committed_jobs"], found["reserved_jobs"]


def test_all_rounds_to_come_are_held_and_each_is_committed_by_itself(tmp_path):
    with factor_device_in(tmp_path) as device:
        for number in range(ROUNDS):
            answered = device.factors.entered(invitation_to(number))
            answered.admit()
            assert standing(device) == (number, ROUNDS - number)
            answered.commit()
            answered.leave(b"")
            assert standing(device) == (number + 1, ROUNDS - number - 1)


def test_a_round_whose_vector_left_costs_again_in_its_next_attempt_and_one_that_was_left_before_does_not(tmp_path):
    with factor_device_in(tmp_path) as device:
        first, second = (device.factors.entered(invitation_to(0, attempt)) for attempt in (0, 1))
        first.admit()
        second.admit()
        assert standing(device) == (0, 3)
        second.commit()
        first.admit()
        assert standing(device) == (1, 3)
        first.commit()
        with pytest.raises(ChargeError, match="nothing is held for round 0"):
            first.commit()
        assert standing(device) == (2, 2)


def test_what_is_held_is_given_back_when_the_series_is_over_and_at_a_start(tmp_path):
    with factor_device_in(tmp_path) as device:
        answered = device.factors.entered(invitation_to(0))
        answered.admit()
        other = device.factors.entered(invitation_to(0, session="other"))
        other.admit()
        assert standing(device) == (0, 6)
        outcome = answered.rounds.broadcast.write(1, flat_model())
        answered.leave(outcome)
        assert standing(device) == (0, 3)
        assert newest_model(tmp_path, "films").model.rank == 2
    with factor_device_in(tmp_path) as device:
        assert standing(device) == (0, 0)
        late = device.factors.entered(invitation_to(2, session="other"))
        late.admit()
        assert standing(device) == (0, 1)


def test_what_is_held_is_given_back_after_a_silence_that_no_round_lasts(tmp_path):
    with factor_device_in(tmp_path) as device:
        answered = device.factors.entered(invitation_to(0, stage_s=20.0))
        answered.admit()
        answered.leave(b"")
        (timer,) = device.factors._held.values()
        assert timer.interval == 5 * 20.0 * 3
        timer.function(*timer.args)
        assert standing(device) == (0, 0)


def test_the_record_is_read_after_the_commit_only_and_whatever_it_is_a_vector_leaves(tmp_path):
    reads = []

    def read():
        reads.append(True)
        raise MemoryError

    with factor_device_in(tmp_path) as device:
        device.factors.ratings["films"] = KeptRatings(DECLARED, read)
        answered = device.factors.entered(invitation_to(0))
        answered.admit()
        answered.commit()
        assert reads == []
        vector, noise = answered.contribute(seeds_of(answered))
        assert reads == [True]
        assert not vector.any()
        assert noise.shape == vector.shape
        (name,) = kept_rounds(tmp_path)
        text = "\n".join(describe_sum_report(read_sum_report(tmp_path, name)))
    assert "zeros were contributed instead: reading it failed: MemoryError" in text
    assert "round 1 of 3" in text


def test_the_owner_limits_what_all_rounds_together_cost(tmp_path):
    epsilon = rounds_of(factor_question(attempts=2), 5).cost_of_all().epsilon(BUDGET.delta).epsilon
    with factor_device_in(tmp_path, largest_epsilon=0.99 * epsilon) as device:
        with pytest.raises(PolicyRefusalError, match="of all rounds in the worst view; at most"):
            device.factors.entered(invitation_to(0)).admit()
        assert standing(device) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"budget": Budget(MEMBER_UNIT, "2026", 6.0, 1e-6)}, BudgetExhaustedError, "the privacy budget"),
        ({"budget": Budget(MEMBER_UNIT, "2026", 100.0, 1e-7)}, ChargeError, "larger than 1e-07"),
        ({"budget": None}, ChargeError, "no privacy budget"),
    ],
)
def test_a_budget_that_does_not_cover_all_rounds_holds_none_of_them(tmp_path, changes, error, words):
    with factor_device_in(tmp_path, **changes) as device:
        with pytest.raises(error, match=words):
            device.factors.entered(invitation_to(0)).admit()
        found = device.budget.standing()
        assert found is None or found["reserved_jobs"] == 0


def test_a_question_about_other_ratings_or_another_round_than_its_own_is_refused(tmp_path):
    with factor_device_in(tmp_path) as device:
        with pytest.raises(JobError, match="walker-1 declares no ratings books"):
            device.factors.entered(invitation_to(0, record="books"))
        with pytest.raises(JobError, match="is declared here with -3 to 3"):
            device.factors.entered(invitation_to(0, upper=5.0)).admit()
        asked = invitation_to(0)
        with pytest.raises(PeerViolationError, match="does not match its question"):
            device.factors.entered(replace(asked, roster=asked.roster[1:]))
        with pytest.raises(PeerViolationError, match="before there are any"):
            device.factors.entered(replace(asked, public_input=invitation_to(1).public_input))
        assert device.factors.entered(replace(asked, public_input=b'{"analysis":"secure-sum"}')) is None


def flat_model(vectors=None):
    offsets = np.arange(N_ITEMS, dtype=np.int64) * 100
    return FactorModel(offsets, np.zeros((N_ITEMS, 2), dtype=np.int64) if vectors is None else vectors, 1 << 12)


def kept_model(**changes):
    fields = {
        "record": "films",
        "items_digest": DECLARED.digest,
        "bounds": (-3.0, 3.0),
        "centre": 0.0,
        "model": flat_model(),
    }
    return KeptModel(**{**fields, **changes})


def test_a_kept_model_is_read_as_it_was_and_the_newest_of_a_record_counts(tmp_path):
    keep_model(tmp_path, "a", kept_model())
    path = keep_model(tmp_path, "b", kept_model(centre=1.0))
    keep_model(tmp_path, "c", kept_model(record="books"))
    assert path.stat().st_mode & 0o077 == 0
    found = newest_model(tmp_path, "films")
    assert found.centre == 1.0
    assert np.array_equal(found.model.offsets_q, flat_model().offsets_q)
    with pytest.raises(NoModelError, match="in no matrix factorization of songs"):
        newest_model(tmp_path, "songs")
    with pytest.raises(ValueError, match="session"):
        keep_model(tmp_path, "../x", kept_model())


@pytest.mark.parametrize(
    "change",
    [
        {"units": 0},
        {"units": "4096"},
        {"offsets": [1 << 40] * N_ITEMS},
        {"vectors": [[1]]},
        {"bounds": [3]},
        {"centre": 9},
    ],
)
def test_a_file_that_holds_no_model_is_refused(tmp_path, change):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**kept_model().as_tree(), **change}))
    with pytest.raises(NoModelError, match="no model"):
        read_model(path)


def test_recommendations_are_the_best_items_that_the_user_has_not_rated(tmp_path):
    path = tmp_path / "films.json"
    record_file(path, RatedItems(("11", "3"), np.array([3.0, -3.0])))
    kept = KeptRatings(DECLARED, lambda: read_ratings(path, DECLARED))
    found = recommended_items(kept, kept_model(), top=3)
    assert [one.item for one in found] == ["10", "9", "8"]
    with pytest.raises(NoModelError, match="another list of items"):
        recommended_items(kept, kept_model(items_digest="0" * 64), top=3)
    path.write_text('{"ratings": [["1", 1], ["1", 2]]}')
    with pytest.raises(NoModelError, match="rates an item twice"):
        recommended_items(kept, kept_model(), top=3)


def test_a_device_declares_features_and_is_recommended_new_items_by_them(tmp_path):
    path = tmp_path / "films.json"
    record_file(path, RatedItems(("11", "3"), np.array([3.0, -3.0])))
    (tmp_path / "genres.csv").write_text("".join(f"{item % 2}, 1\n" for item in range(N_ITEMS)))
    fields = {"kind": "ratings", "name": "films", "path": path, "items": N_ITEMS, "bounds": [-3.0, 3.0]}
    with_file = {**fields, "features": {"file": "genres.csv"}}
    declared = RatingsRecordConfig.model_validate(with_file, context={"folder": tmp_path}).as_kept()
    digest, regression = declared.declared.features_digest, Regression(np.array([0.0, 0.0, 2.0, 0.0]), 0.5)
    model = kept_model(features_digest=digest, regression=regression)
    assert KeptModel.from_tree(json.loads(json.dumps(model.as_tree()))).regression.as_data() == regression.as_data()
    new = NewItems.of_lines(["dune, 1, 1", "heat, 0, 1"])
    found = [one.item for one in recommended_items(declared, model, top=20, new=new)]
    assert found[0] == "dune"
    assert set(found) == {"dune", "heat", *map(str, range(N_ITEMS))} - {"11", "3"}
    with pytest.raises(NoModelError, match="other features of items"):
        recommended_items(declared, kept_model(features_digest="0" * 64, regression=regression), top=3)
    with pytest.raises(ValueError, match="new items: the model has no public features"):
        recommended_items(declared, kept_model(), top=3, new=new)
    with pytest.raises(NoModelError, match="no model"):
        KeptModel.from_tree({**model.as_tree(), "regression": {"constant": float("nan")}})
    with pytest.raises(ValidationError, match="rows of features for 12 items"):
        RatingsRecordConfig.model_validate({**fields, "features": [[1.0]]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"ratings": {"a": 1}}',
        '{"ratings": [["a"]]}',
        '{"ratings": [[1, 1]]}',
        '{"ratings": [["a", "1"]]}',
        '{"ratings": [["a", true]]}',
        '{"ratings": [["a", 1' + "0" * 400 + "]]}",
        "[" * 5000,
    ],
)
def test_a_file_that_holds_no_ratings_is_not_used(tmp_path, text):
    path = tmp_path / "films.json"
    path.write_text(text)
    declared = DeclaredRatings(3, 1.0, 5.0, most=3)
    with pytest.raises(UnusableRecordError, match="not of the form"):
        read_ratings(path, declared)
    path.write_text(" " * 70_000)
    with pytest.raises(UnusableRecordError, match="the file is longer than"):
        read_ratings(path, declared)
