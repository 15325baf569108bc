import pytest

from coordinator.evidence import Evidence

NAMES = ("north", "south", "west", "east")


@pytest.fixture
def evidence() -> Evidence:
    return Evidence(NAMES, 0.0)


def test_nothing_heard_is_no_verdict(evidence: Evidence) -> None:
    evidence.reported("north", "keys", 1.0)
    evidence.finished("south", 2.0)
    assert evidence.verdict() is None


def test_a_party_that_gives_up_because_of_itself_is_at_fault_in_its_own_words(evidence: Evidence) -> None:
    evidence.failed("south", "rows", "south is gone", culprit="west")
    evidence.failed("west", "rows", "the table has more rows than max_rows", culprit="")
    verdict = evidence.verdict()
    assert verdict is not None
    assert (verdict.culprit, verdict.stage) == ("west", "rows")
    assert verdict.reason == "party west failed in stage rows: the table has more rows than max_rows"


@pytest.mark.parametrize("culprit", ["", "west", "somebody else", "coordinator"])
def test_accusing_nobody_of_the_roster_is_a_failure_of_ones_own(evidence: Evidence, culprit: str) -> None:
    evidence.failed("west", "rows", "no more", culprit=culprit)
    verdict = evidence.verdict()
    assert verdict is not None
    assert (verdict.culprit, verdict.reason) == ("west", "party west failed in stage rows: no more")


def test_a_broken_connection_counts_before_what_others_say(evidence: Evidence) -> None:
    evidence.failed("north", "table", "south sent nothing for 5 s", culprit="south")
    evidence.failed("south", "table", "too few shares", culprit="")
    evidence.reported("west", "multiply", 3.0)
    evidence.broke("west", "it closed the connection")
    verdict = evidence.verdict()
    assert verdict is not None
    assert verdict.reason == "party west went away in stage multiply: it closed the connection"
    assert (verdict.culprit, verdict.stage) == ("west", "multiply")


def test_silence_counts_before_accusations(evidence: Evidence) -> None:
    evidence.failed("north", "table", "south sent nothing for 5 s", culprit="south")
    evidence.reported("west", "table", 1.0)
    evidence.fell_silent("west", 5.0)
    verdict = evidence.verdict()
    assert verdict is not None
    assert verdict.reason == "party west stalled in stage table: no sign of life for 5 s [party-stalled]"


def test_accusations_are_followed_to_the_one_that_accuses_nobody(evidence: Evidence) -> None:
    evidence.failed("north", "table", "south sent nothing for 5 s", culprit="south")
    evidence.failed("south", "table", "west sent nothing for 5 s", culprit="west")
    verdict = evidence.verdict()
    assert verdict is not None
    assert (verdict.culprit, verdict.stage) == ("west", "table")
    assert verdict.reason == "party south reports: west sent nothing for 5 s"


def test_a_circle_of_accusations_ends(evidence: Evidence) -> None:
    evidence.failed("north", "table", "south is gone", culprit="south")
    evidence.failed("south", "table", "north is gone", culprit="north")
    verdict = evidence.verdict()
    assert verdict is not None
    assert verdict.culprit in {"north", "south"}


def test_only_parties_that_still_run_can_fall_silent(evidence: Evidence) -> None:
    evidence.reported("north", "multiply", 9.0)
    evidence.reported("south", "multiply", 2.0)
    evidence.finished("west", 1.0)
    evidence.failed("east", "rows", "no", culprit="")
    assert evidence.silent_since(5.0) == ["south"]
    evidence.fell_silent("south", 5.0)
    assert evidence.silent_since(5.0) == []


def test_all_have_ended_once_the_last_one_has(evidence: Evidence) -> None:
    for at_s, name in enumerate(NAMES[:3]):
        evidence.finished(name, float(at_s))
    assert not evidence.all_ended_before(100.0)
    evidence.finished("east", 7.0)
    assert not evidence.all_ended_before(7.0)
    assert evidence.all_ended_before(7.5)


def test_who_is_kept_waiting_by_a_slow_party_is_not_blamed_by_those_who_wait_for_it(evidence: Evidence) -> None:
    evidence.reported("south", "multiply", 9.0, waits_for="west")
    evidence.failed("north", "table", "south sent nothing for 5 s", culprit="south")
    verdict = evidence.verdict()
    assert verdict is not None
    assert verdict.culprit == "west"
    assert verdict.reason == "party south waits for west in stage multiply, and others wait for south [party-slow]"


def test_who_waits_no_longer_is_blamed(evidence: Evidence) -> None:
    evidence.reported("south", "multiply", 9.0, waits_for="west")
    evidence.reported("south", "multiply", 10.0)
    evidence.failed("north", "table", "south sent nothing for 5 s", culprit="south")
    verdict = evidence.verdict()
    assert verdict is not None
    assert verdict.culprit == "south"


@pytest.mark.parametrize("said", ["nobody", "south", ""])
def test_to_wait_for_oneself_or_a_stranger_is_no_excuse(evidence: Evidence, said: str) -> None:
    evidence.reported("south", "multiply", 9.0, waits_for=said)
    evidence.failed("north", "table", "south sent nothing for 5 s", culprit="south")
    verdict = evidence.verdict()
    assert verdict is not None
    assert verdict.culprit == "south"
    assert evidence.slow_party() == ""


def test_the_slow_party_is_the_one_that_waits_for_nobody(evidence: Evidence) -> None:
    assert evidence.slow_party() == ""
    evidence.reported("north", "multiply", 9.0, waits_for="south")
    evidence.reported("south", "multiply", 9.0, waits_for="west")
    assert evidence.slow_party() == "west"
    evidence.reported("west", "multiply", 9.0, waits_for="north")
    assert evidence.slow_party() in NAMES  # a circle ends


def test_an_accusation_of_the_coordinator_is_told_as_it_stands_and_names_no_party(evidence: Evidence) -> None:
    text = "west says that it was shown another plan"
    evidence.failed("north", "keys", text, culprit="coordinator", is_finding=True)
    evidence.failed("south", "keys", "north aborted the job", culprit="north")
    verdict = evidence.verdict()
    assert verdict is not None
    assert (verdict.culprit, verdict.stage) == ("", "keys")
    assert verdict.reason == f"party north reports: {text}"


def test_whoever_finds_what_nobody_can_be_blamed_for_is_not_blamed_itself(evidence: Evidence) -> None:
    text = "the shares of two parties contradict each other"
    evidence.failed("south", "proof", "north has dropped out", culprit="north")
    evidence.failed("north", "proof", text, culprit="", is_finding=True)
    verdict = evidence.verdict()
    assert verdict is not None
    assert (verdict.culprit, verdict.stage) == ("", "proof")
    assert text in verdict.reason


def test_a_party_that_misses_the_one_that_accuses_the_coordinator_does_not_hide_the_accusation(
    evidence: Evidence,
) -> None:
    evidence.failed("south", "keys", "north aborted the job", culprit="north")
    evidence.failed("north", "keys", "another plan", culprit="coordinator", is_finding=True)
    verdict = evidence.verdict()
    assert verdict is not None
    assert verdict.reason == "party north reports: another plan"


def test_what_a_party_finds_that_another_finding_names_comes_last(evidence: Evidence) -> None:
    """Who deals what is wrong finds so, too, and nobody to name. Where two name each other, the first one is heard."""
    evidence.failed("north", "proof", "somebody", culprit="", is_finding=True)
    evidence.failed("west", "proof", "north did it", culprit="north", is_finding=True)
    found = evidence.verdict()
    assert found is not None
    assert (found.culprit, found.reason) == ("north", "party west reports: north did it")
    evidence.failed("north", "proof", "west did it", culprit="west", is_finding=True)
    found = evidence.verdict()
    assert found is not None
    assert found.culprit == "west"
