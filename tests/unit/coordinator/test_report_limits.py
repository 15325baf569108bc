from coordinator.report_limits import EVENTS_PER_S, MAX_EVENTS_AT_ONCE, NOTE_BYTES, Allowance, Pace


def test_the_same_note_is_written_once() -> None:
    said = Allowance()
    assert said.admits("approval", 0, "please wait")
    assert not said.admits("approval", 0, "please wait")
    assert said.admits("approval", 0, "please wait longer")


def test_all_texts_together_have_a_limit() -> None:
    said = Allowance(10 * NOTE_BYTES)
    n_admitted = sum(said.admits("", 0, f"{i:0{NOTE_BYTES}}") for i in range(100))
    assert n_admitted == 5  # of 128 bytes and 128 for the row


def test_letters_count_as_the_bytes_that_they_take() -> None:
    assert not Allowance(NOTE_BYTES + 3).admits("", 0, "ää")
    assert Allowance(NOTE_BYTES + 4).admits("", 0, "ää")


def test_who_talks_fast_for_long_is_read_at_a_limited_pace() -> None:
    pace = Pace(0.0)
    pauses = [pace.pause_s(0.0) for _ in range(MAX_EVENTS_AT_ONCE + 10)]
    assert not any(pauses[:MAX_EVENTS_AT_ONCE])
    assert pauses[-1] == 10 / EVENTS_PER_S
    assert pace.pause_s(60.0) == 0.0
