"""A circuit of two layers among separate processes, one of which dies or lies at every stage."""

import pytest
from mesh_processes import (
    DEADLINE_S,
    PHASES,
    RIGHT,
    DieAfter,
    MultiplyWrongShare,
    SendStrayMessages,
    SendWordsOutsideTheField,
    SendWrongShare,
    run_processes,
)

DEATHS = (
    *((n_parties, 1, phase, 1) for n_parties in (3, 5) for phase in PHASES),
    *(pytest.param(4, 1, phase, 0, marks=pytest.mark.slow) for phase in PHASES),
)
"""Parties and t, the phase, and the messages of it that the victim sends before it dies."""
VICTIM = 2  # one of the two who bring values
PATIENCE = 3
"""Deadlines from a death to the end of the last: two of `mpc.protocol.agreement`, and one for a machine that does much
else."""


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2)])
def test_all_members_compute_the_same(tmp_path, n_parties, t):
    outcomes, _ = run_processes(tmp_path, n_parties, t, {})
    assert len(outcomes) == n_parties
    for outcome in outcomes.values():
        assert (outcome.values, outcome.wrong, outcome.dropped_out) == (RIGHT.tolist(), (), ())


@pytest.mark.parametrize(("n_parties", "t", "phase", "n_messages"), DEATHS)
def test_a_party_killed_ends_the_job_by_name_or_is_survived(tmp_path, n_parties, t, phase, n_messages):
    outcomes, seconds_since_death = run_processes(tmp_path, n_parties, t, {VICTIM: DieAfter(phase, n_messages)})
    assert sorted(outcomes) == [number for number in range(1, n_parties + 1) if number != VICTIM]
    assert seconds_since_death < PATIENCE * DEADLINE_S
    has_surplus = n_parties > 2 * t + 1
    for outcome in outcomes.values():
        if outcome.values is None:
            # On a slow machine the victim's input may not have left it when it is killed in the first layer.
            lacks_input = phase in ("start", "input") or (phase == "first layer" and "input" in outcome.text)
            assert lacks_input or not has_surplus, outcome
            assert phase != "opening"  # two of three shares suffice
            # Who has given up because of it leaves, and on a busy machine that is noticed first.
            has_left = outcome.culprit in outcomes and outcomes[outcome.culprit].values is None
            assert f"party-{VICTIM}" in outcome.text or has_left, outcome
        else:
            assert outcome.values == RIGHT.tolist()
    failed = [outcome for outcome in outcomes.values() if outcome.values is None]
    assert not failed or VICTIM in {outcome.culprit for outcome in failed}
    assert phase != "start" or len(failed) == len(outcomes)  # there are no keys to go on with


def test_a_wrong_share_of_what_is_opened_is_corrected_and_its_sender_named(tmp_path):
    outcomes, _ = run_processes(tmp_path, 5, 1, {3: SendWrongShare("opening")})
    for number, outcome in outcomes.items():
        assert outcome.values == RIGHT.tolist()
        assert outcome.wrong == ((3,) if number != 3 else ())


def test_a_party_that_multiplies_a_wrong_share_is_named_and_nothing_is_opened(tmp_path):
    outcomes, _ = run_processes(tmp_path, 5, 1, {3: MultiplyWrongShare()})
    for outcome in outcomes.values():
        assert outcome.values is None
        assert outcome.culprit == 3
        assert "party-3 multiplied corrupted shares" in outcome.text


@pytest.mark.parametrize("phase", [pytest.param("first layer", marks=pytest.mark.slow), "second layer"])
def test_wrong_shares_of_a_product_never_open_a_wrong_value(tmp_path, phase):
    outcomes, _ = run_processes(tmp_path, 5, 1, {3: SendWrongShare(phase)})
    assert all(outcome.values in (None, RIGHT.tolist()) for outcome in outcomes.values())


@pytest.mark.parametrize("phase", [pytest.param("input", marks=pytest.mark.slow), "first layer"])
def test_a_word_outside_the_field_ends_the_job_by_the_name_of_its_sender(tmp_path, phase):
    outcomes, _ = run_processes(tmp_path, 3, 1, {VICTIM: SendWordsOutsideTheField(phase)})
    assert len(outcomes) == 3
    assert all(outcome.values is None for outcome in outcomes.values())
    text = f"party-{VICTIM} sent a value outside the field in stage computation/"
    assert text in " ".join(outcome.text for outcome in outcomes.values())
    noticed = [outcome for outcome in outcomes.values() if outcome.error == "PeerViolationError"]
    assert noticed
    assert {outcome.culprit for outcome in noticed} == {VICTIM}


def test_a_word_outside_the_field_in_an_opening_is_left_out_and_its_sender_named(tmp_path):
    outcomes, _ = run_processes(tmp_path, 3, 1, {VICTIM: SendWordsOutsideTheField("opening")})
    for number, outcome in outcomes.items():
        assert outcome.values == RIGHT.tolist()
        assert outcome.wrong == ((VICTIM,) if number != VICTIM else ())


def test_messages_for_another_job_or_stage_change_nothing(tmp_path):
    outcomes, _ = run_processes(tmp_path, 3, 1, {2: SendStrayMessages("first layer")})
    assert [outcome.values for outcome in outcomes.values()] == [RIGHT.tolist()] * 3
