"""What a job does when parties drop out, and when the coordinator does not tell all members the same."""

import numpy as np
import pytest
from rating_jobs import PARTIES, VERTICAL, horizontal_tables, job_of, vertical_tables
from virtual_time import run_in_virtual_time

from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.broadcast import ECHO_STAGE, RELEASED_STAGE, ModelFormat
from analyses.matrix_factorization.model import MAX_VALUE, FactorModel
from analyses.run_locally import local_network, run_plan
from analyses.sums.session_series import ANNOUNCEMENT_STAGE
from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError, PeerLostError, PeerViolationError, ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import TooFewMembersError
from mpc.secagg.stage import Stage
from party.gate import COMMIT_STAGE, GatedSession

FOUR = (*PARTIES, "west")
STAGES = (Stage.ADVERTISE, Stage.SHARE, Stage.MASK, Stage.AGREE, Stage.UNMASK)


def planned(parties=FOUR, parameters=None, **changes):
    parameters = parameters or {"rank": 2, "rounds": 2}
    tables = (vertical_tables if "setting" in parameters else horizontal_tables)(parties)
    job = job_of(parties, colluding=1, parameters=parameters, deadline_s=40.0, **changes)
    return protocol.plan(job, [tables[name].schema for name in job.members]), tables


def run_with(plan, tables, fault=lambda message: (message,), parts=None):
    network = local_network(
        plan, entropy_of=lambda member: InsecureTestEntropy(f"{member}"), fault=fault, deadline_s=40.0
    )
    return run_in_virtual_time(run_plan(plan, tables, network, analysis=protocol.ANALYSIS, parts=parts or {}))


class Lost:
    """Loses a member for good when it says something at a stage of a round."""

    def __init__(self, member, stage, number):
        self.member, self.at, self.is_lost = member, f"{stage}, round {number}, attempt 0", False

    def __call__(self, message):
        if message.sender == self.member and message.stage == self.at:
            self.is_lost = True
        return () if self.is_lost and message.sender == self.member else (message,)


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


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", [1, 2])
def test_with_too_few_left_the_last_opened_model_is_the_result_and_members_get_it(stage, number):
    plan, tables = planned(PARTIES)
    ended = run_with(plan, tables, Lost(3, stage, number))
    result = ended.result
    assert len(result["rounds"]) == number
    assert result["rounds_paid"] == [0, 1, 2]
    assert result["rounds_opened"] == list(range(number))
    opened = "0" if number == 1 else "0 to 1"
    assert f"rounds paid: 0 to 2; opened: {opened}" in protocol.ANALYSIS.lines(result)
    assert (np.array(result["vectors"]) == 0).all() == (number == 1)
    kept = [ended.reports[name].kept for name in PARTIES[:2]]
    assert all(one["vectors"] == result["vectors"] for one in kept)
    assert result["privacy"]["views"] == plan.privacy_report()["views"]  # rounds that were not opened are paid too


def test_with_too_few_left_in_the_first_round_the_job_fails():
    plan, tables = planned(PARTIES)
    with pytest.raises(ProtocolError) as caught:
        _ = run_with(plan, tables, Lost(3, Stage.MASK, 0)).result
    assert isinstance(caught.value, TooFewMembersError | PeerLostError)


@pytest.mark.parametrize("stage", STAGES)
def test_an_owner_of_items_may_drop_out_too(stage):
    plan, tables = planned(parameters=VERTICAL)
    ended = run_with(plan, tables, Lost(4, stage, 1))
    assert len(ended.result["rounds"]) == 2
    assert set(PARTIES) <= set(ended.reports)


class Retold:
    """Changes what the coordinator broadcasts before a round, to one member or to all."""

    def __init__(self, plan, number, members, change):
        self.plan, self.number, self.members, self.change = plan, number, members, change
        self.n_told = dict.fromkeys(members, 0)

    def __call__(self, message):
        told = (message.sender, message.stage) == (COORDINATOR, ANNOUNCEMENT_STAGE) and message.receiver in self.members
        if told and message.array.size == self.plan.broadcast.n_bytes:
            self.n_told[message.receiver] += 1
            if self.n_told[message.receiver] == self.number:
                changed = np.frombuffer(self.change(message.array.tobytes()), dtype=np.uint8)
                return (message.altered(changed),)
        return (message,)


def one_more(data):
    return data[:-4] + (int.from_bytes(data[-4:], "little") ^ 1).to_bytes(4, "little")


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
        COMMIT_STAGE,
    } | {m.stage for m in ended.network.transcript if "key" in m.stage or "greet" in m.stage}


@pytest.mark.parametrize("parameters", [{"rank": 2, "rounds": 2}, VERTICAL])
def test_the_gate_of_a_party_lets_all_rounds_pass_after_one_commit(parameters):
    plan, tables = planned(PARTIES, parameters)
    commits = []

    def through_the_gate(name):
        async def part(session):
            gated = GatedSession.of_plan(session, plan, commit=lambda: commits.append(name))
            report = await protocol.party(gated, plan, tables[name])
            await gated.open()
            return report

        return part

    ended = run_with(plan, tables, parts={number: through_the_gate(name) for number, name in enumerate(PARTIES, 1)})
    assert ended.result == run_with(plan, tables).result
    assert sorted(commits) == sorted(PARTIES)


@pytest.mark.parametrize(
    ("parameters", "skipped"), [({"rank": 2, "rounds": 2}, "RoundNoise"), (VERTICAL, "OwnItemsNoise")]
)
def test_a_party_that_does_not_draw_the_noise_of_a_round_is_stopped_by_its_gate(parameters, skipped):
    plan, tables = planned(PARTIES, parameters)

    class DrawsPastTheGate:
        def __init__(self, gate):
            self.gate = gate

        def __getattr__(self, name):
            return getattr(self.gate, name)

        async def draw(self, release, *args):
            if type(release).__name__ != skipped:
                return await self.gate.draw(release, *args)
            return release.draw(InsecureTestEntropy("past the gate"), *args)

    async def part(session):
        gate = GatedSession.of_plan(session, plan, commit=lambda: None)
        return await protocol.party(
            DrawsPastTheGate(gate) if session.me == 1 else gate, plan, tables[PARTIES[session.me - 1]]
        )

    ended = run_with(plan, tables, parts=dict.fromkeys((1, 2, 3), part))
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
