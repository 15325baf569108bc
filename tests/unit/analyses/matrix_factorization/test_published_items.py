"""Owners of items that publish what is paid for: the same cost, noisy sums alone, whoever drops out, lies."""

import numpy as np
import pytest
from factor_runs import FOUR, Lost, planned, run_with, through_the_gate
from rating_jobs import N_ITEMS, PARTIES, SGD_VERTICAL, SGD_VERTICAL_PARTY, VERTICAL
from rating_tables import made_up

from analyses.matrix_factorization.broadcast import PUBLISHED_STAGE, RELEASED_STAGE, ModelFormat
from analyses.matrix_factorization.descent.step_noise import OwnStepNoise
from analyses.matrix_factorization.protocol import VERTICAL_PRIOR
from analyses.matrix_factorization.round_noise import OwnItemsNoise
from analyses.matrix_factorization.vertical import Owner, first_users
from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.stage import Stage
from party.drawn import DrawnNoise
from results.registry import lines_of

WAYS = pytest.mark.parametrize(
    "parameters", [VERTICAL, SGD_VERTICAL, SGD_VERTICAL_PARTY], ids=["statistics", "sgd, once", "sgd, party"]
)


def publishing(parameters, parties=PARTIES):
    return planned(parties, {**parameters, "publish_items": True})


def stated(model, units):
    """Offset and vector of each item, as a party keeps them."""
    return np.column_stack([model["offsets"], model["vectors"]]) / units


@WAYS
def test_the_items_of_all_owners_are_published_at_no_cost_beside_what_is_paid_in_every_case(parameters):
    plan, tables = publishing(parameters)
    silent, _ = planned(PARTIES, parameters)
    assert plan.privacy_report() == silent.privacy_report()
    assert plan.digest() != silent.digest()
    result = run_with(plan, tables, parts=through_the_gate(plan, tables, [])).result
    assert list(result["items"]) == list(PARTIES)
    for party in PARTIES:
        assert stated(result["items"][party], result["units"]).shape == (N_ITEMS // 3, 1 + result["rank"])
    assert "items published by bank, hospital, telco (all values: --format json)" in lines_of(plan.job.analysis, result)
    ended = run_with(silent, tables)
    assert "items" not in ended.result
    assert PUBLISHED_STAGE not in {message.stage for message in ended.network.transcript}


@WAYS
def test_a_released_model_is_read_once_by_each_party(parameters, monkeypatch):
    read, stages = ModelFormat.read, []

    def counted(self, data, number, stage, *sender):
        stages.append(stage)
        return read(self, data, number, stage, *sender)

    monkeypatch.setattr(ModelFormat, "read", counted)
    run_with(*publishing(parameters))
    assert stages.count(RELEASED_STAGE) == len(PARTIES)


def test_in_the_form_sgd_what_is_published_is_what_is_kept_and_in_the_other_form_it_is_not():
    for parameters, is_same in ((SGD_VERTICAL, True), (VERTICAL, False)):
        ended = run_with(*publishing(parameters))
        published = stated(ended.result["items"]["bank"], ended.result["units"])
        kept = np.array(ended.reports["bank"].kept["items"])
        assert (published.shape == kept.shape and np.allclose(published, kept)) == is_same


def test_published_items_follow_from_noisy_sums_and_the_broadcast_and_from_no_rating():
    plan = publishing(VERTICAL)[0].factors
    ratings = [made_up(plan.params.n_users, 4, 3, seed=seed)[0] for seed in (1, 2)]
    owners = [Owner(plan, one, VERTICAL_PRIOR, InsecureTestEntropy("noise")) for one in ratings]
    users = first_users(plan)
    sums = [owner.item_sums(users) for owner in owners]
    assert not np.array_equal(*sums)
    for noisy in (sums[0] + 7, np.zeros_like(sums[0])):
        one, other = (owner.take_items(0, noisy) for owner in owners)
        assert np.array_equal(one.vectors_q, other.vectors_q)
        assert np.array_equal(one.offsets_q, other.offsets_q)
        assert owners[0].items is one


@WAYS
def test_no_items_leave_before_the_noise_of_the_last_sums_that_they_are_made_of_was_drawn(parameters):
    plan, _ = publishing(parameters)
    own = [one for one in plan.releases if isinstance(one.release, OwnItemsNoise | OwnStepNoise)]
    last = [one for one in own if PUBLISHED_STAGE not in one.earlier]
    assert last
    books = DrawnNoise(plan.releases, 1)
    for one in last:
        with pytest.raises(LocalFaultError, match="was not drawn"):
            books.check_message(COORDINATOR, PUBLISHED_STAGE)
        books.finish(books.begin(one.release))
    books.check_message(COORDINATOR, PUBLISHED_STAGE)


@WAYS
def test_whoever_is_not_in_the_last_sum_publishes_nothing_and_nobody_does_where_rounds_are_missing(parameters):
    rounds = 2 if parameters is VERTICAL else 3
    ended = run_with(*publishing(parameters, FOUR), Lost(4, Stage.MASK, rounds - 1))
    assert list(ended.result["items"]) == list(PARTIES)
    ended = run_with(*publishing(parameters), Lost(3, Stage.MASK, rounds - 1))
    assert ended.result["items"] == {}
    assert {"bank", "hospital"} <= set(ended.reports)


def test_an_owner_that_is_lost_with_its_items_is_left_out_and_one_that_sends_something_else_is_named():
    plan, tables = publishing(VERTICAL)

    def changed(change):
        def fault(message):
            return change(message) if (message.sender, message.stage) == (2, PUBLISHED_STAGE) else (message,)

        return fault

    ended = run_with(plan, tables, changed(lambda message: ()))
    assert list(ended.result["items"]) == ["bank", "telco"]
    off = np.full(plan.publishing(2, (2,))[2].n_bytes, 0xFF, dtype=np.uint8)
    ended = run_with(plan, tables, changed(lambda message: (message.altered(off),)))
    (found,) = [error for error in ended.failures if isinstance(error, PeerViolationError)]
    assert found.member == 2


def test_only_owners_of_items_publish_them():
    with pytest.raises(Exception, match="publish_items: in the horizontal setting"):
        planned(PARTIES, {"rank": 1, "publish_items": True})
