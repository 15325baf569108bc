"""What a job does when parties drop out, and when the coordinator does not tell all members the same."""

import numpy as np
import pytest
from factor_runs import STAGES, Lost, Retold, one_more, planned, run_past_the_gate, run_with, through_the_gate
from rating_jobs import PARTIES, VERTICAL

from analyses.matrix_factorization.broadcast import ECHO_STAGE, RELEASED_STAGE, VERDICT_STAGE, ModelFormat
from analyses.matrix_factorization.model import MAX_VALUE, FactorModel
from mpc.errors import LocalFaultError, PeerLostError, PeerViolationError, ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import TooFewMembersError
from mpc.secagg.stage import Stage
from party.gate import COMMIT_STAGE
from results.registry import lines_of


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_of_four_may_drop_out_at_every_stage_of_every_round(stage, number):
    plan, tables = planned()
    lost = Lost(4, stage, number)
    ended = run_with(plan, tables, lost)
    assert lost.is_lost
    result = ended.result
    assert len(result["rounds"]) == 3
    for t, one in enumerate(result["rounds"]):
        assert set(PARTIES) <= set(one["survivors"])
        assert ("west" in one["survivors"]) == (t < number or (t == number and stage in STAGES[3:]))
    assert set(PARTIES) <= set(ended.reports)


@pytest.mark.parametrize(("stage", "number"), [(stage, 1 + place % 2) for place, stage in enumerate(STAGES)])
def test_with_too_few_left_the_last_opened_model_is_the_result_and_members_get_it(stage, number):
    plan, tables = planned(PARTIES)
    ended = run_with(plan, tables, Lost(3, stage, number))
    result = ended.result
    assert len(result["rounds"]) == number
    assert result["rounds_paid"] == [0, 1, 2]
    assert result["rounds_opened"] == list(range(number))
    opened = "0" if number == 1 else "0 to 1"
    lines = lines_of("matrix-factorization", result)
    assert f"rounds paid: 0 to 2; opened: {opened}" in lines
    missed = f"for {3 - number} of them too few parties were left"
    assert f"the job ended early: all 3 planned rounds are paid, and {missed}" in lines
    assert (np.array(result["vectors"]) == 0).all() == (number == 1)
    kept = [ended.reports[name].kept for name in PARTIES[:2]]
    assert all(one["told"].startswith("own model kept") and one["whose"] in {"joint", "alone"} for one in kept)
    assert result["privacy"]["views"] == plan.privacy_report()["views"]  # rounds that were not opened are paid too


def test_with_too_few_left_in_the_first_round_the_job_fails():
    plan, tables = planned(PARTIES)
    with pytest.raises(ProtocolError) as caught:
        _ = run_with(plan, tables, Lost(3, Stage.MASK, 0)).result
    assert isinstance(caught.value, TooFewMembersError | PeerLostError)


@pytest.mark.parametrize("stage", STAGES[::2])
def test_an_owner_of_items_may_drop_out_too(stage):
    plan, tables = planned(parameters=VERTICAL)
    ended = run_with(plan, tables, Lost(4, stage, 1))
    assert len(ended.result["rounds"]) == 2
    assert set(PARTIES) <= set(ended.reports)


@pytest.mark.parametrize("number", [1, 2])
def test_an_attempt_before_which_one_member_received_another_model_is_not_opened(number):
    plan, tables = planned(PARTIES)
    retold = Retold(plan, number, (2,), one_more)
    ended = run_with(plan, tables, retold)
    assert retold.n_told[2] >= number
    assert ended.result["rounds"][number]["attempt"] == 1
    assert f"{Stage.MASK}, round {number}, attempt 0" not in {
        m.stage for m in ended.network.transcript if m.receiver == COORDINATOR
    }


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: (7).to_bytes(8, "little") + data[8:], "of another round"),
        (
            lambda data: data[:8] + ((MAX_VALUE << 12) + 1).to_bytes(4, "little") + data[12:],
            "not on the plan's lattice",
        ),
        (lambda data: data[:-4], "of another shape"),
    ],
)
def test_a_model_of_another_round_or_off_the_lattice_is_refused_by_all(monkeypatch, change, what):
    plan, tables = planned(PARTIES)
    write = ModelFormat.write
    monkeypatch.setattr(ModelFormat, "write", lambda how, number, model: change(write(how, number, model)))
    ended = run_with(plan, tables)
    found = [error for error in ended.failures if isinstance(error, PeerViolationError)]
    assert found
    assert all(error.member == COORDINATOR and what in str(error) for error in found)
    assert not any(
        "round 1" in m.stage
        for m in ended.network.transcript
        if m.stage.startswith(str(Stage.MASK)) and m.receiver == COORDINATOR
    )


def test_different_models_at_the_end_are_found_by_the_parties():
    plan, tables = planned(PARTIES)
    n_seen = [0]

    def fault(message):
        if (message.sender, message.receiver, message.stage) == (COORDINATOR, 2, RELEASED_STAGE):
            n_seen[0] += 1
            if n_seen[0] == 3:
                return (message.altered(np.frombuffer(one_more(message.array.tobytes()), dtype=np.uint8)),)
        return (message,)

    ended = run_with(plan, tables, fault)
    assert any("different offsets or vectors" in str(error) for error in ended.failures)
    assert "bank" not in ended.reports


def test_no_rating_user_or_count_is_in_what_the_coordinator_receives():
    """Beside keys and signatures only masked vectors reach the coordinator, and none of them is an exact sum."""
    plan, tables = planned(PARTIES, {"rank": 0})
    ended = run_with(plan, tables)
    to_coordinator = {m.stage for m in ended.network.transcript if m.receiver == COORDINATOR}
    assert not {stage for stage in to_coordinator if "round 0" not in stage} - {"signing key"}
    assert {m.stage for m in ended.network.transcript if m.receiver != COORDINATOR and m.sender != COORDINATOR} <= {
        "signing key",
        "greeting",
        ECHO_STAGE,
        VERDICT_STAGE,
        COMMIT_STAGE,
    } | {m.stage for m in ended.network.transcript if "key" in m.stage or "greet" in m.stage}


@pytest.mark.parametrize("parameters", [{"rank": 2, "rounds": 2}, VERTICAL])
def test_the_gate_of_a_party_lets_all_rounds_pass_after_one_commit(parameters):
    plan, tables = planned(PARTIES, parameters)
    commits = []
    ended = run_with(plan, tables, parts=through_the_gate(plan, tables, commits))
    assert ended.result == run_with(plan, tables).result
    assert sorted(commits) == sorted(PARTIES)


@pytest.mark.parametrize(
    ("parameters", "skipped"), [({"rank": 2, "rounds": 2}, "RoundNoise"), (VERTICAL, "OwnItemsNoise")]
)
def test_a_party_that_does_not_draw_the_noise_of_a_round_is_stopped_by_its_gate(parameters, skipped):
    plan, tables = planned(PARTIES, parameters)
    ended = run_past_the_gate(plan, tables, lambda release: type(release).__name__ == skipped)
    assert isinstance(ended.ends[1], LocalFaultError)
    assert "noise that was not drawn" in str(ended.ends[1])


def test_a_model_crosses_the_network_unchanged_up_to_the_ends_of_its_range():
    how = ModelFormat(2, 1, 1 << 12)
    most = MAX_VALUE << 12
    model = FactorModel(np.array([most, -most]), np.array([[0], [-1]]), 1 << 12)
    read = how.read(how.write(3, model), 3, "a stage")
    assert np.array_equal(read.offsets_q, model.offsets_q)
    assert np.array_equal(read.vectors_q, model.vectors_q)
    with pytest.raises(PeerViolationError, match="another shape"):
        how.read(how.write(3, model)[:-1], 3, "a stage")
