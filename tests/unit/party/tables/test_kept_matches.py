"""The files of kept matches: what they hold, and what becomes of damaged ones."""

import numpy as np
import pytest

from party.tables.kept_matches import KeptMatches, NoMatchError, UnreadableMatchError

FIELDS = {
    "inputs": {"bank": "people", "clinic": "visits", "shop": "buyers"},
    "table": "people",
    "recipe": (("trim", "lower"), ("date",)),
    "version": "[1, 2, 3]",
    "ids_digest": "ab" * 32,
    "origin": bytes(range(32)),
}
ROWS = np.array([70_000, 3, 0, 9, 10, 2570], dtype=np.int64)  # whose bytes hold line ends


@pytest.fixture
def kept(tmp_path):
    store = KeptMatches(tmp_path)
    store.keep("job-1", ROWS, **FIELDS)
    return store


def path_of(tmp_path):
    return tmp_path / "matches" / "job-1.match"


def test_what_is_kept_is_found_again(kept, tmp_path):
    head = KeptMatches(tmp_path).find("job-1")
    assert head.model_dump(include={"inputs", "table", "recipe", "version", "ids_digest"}) == {
        name: value for name, value in FIELDS.items() if name != "origin"
    }
    assert bytes.fromhex(head.origin) == FIELDS["origin"]
    assert kept.rows("job-1").tolist() == ROWS.tolist()
    assert kept.ids() == ["job-1"]
    shown = repr(head)
    assert "people" in shown
    assert not any(word in shown for word in ("abab", "n_rows", "origin", "digest"))


def test_no_row_at_all_can_be_kept(kept):
    kept.keep("none", ROWS[:0], **FIELDS)
    assert kept.rows("none").tolist() == []


def test_a_deleted_match_is_gone(kept):
    kept.delete("job-1")
    for ask in (kept.find, kept.rows, kept.delete):
        with pytest.raises(NoMatchError, match="there is no kept match job-1"):
            ask("job-1")
    assert kept.ids() == []


@pytest.mark.parametrize("name", ["", "..", "../job-1", "a/b", "job-1.match", "-x"])
def test_an_id_is_no_path(kept, name):
    for ask in (kept.find, kept.rows, kept.delete):
        with pytest.raises(NoMatchError):
            ask(name)
    assert kept.ids() == ["job-1"]


@pytest.mark.parametrize("place", [-1, -20, 0])
def test_a_file_of_whose_rows_or_form_a_byte_was_changed_is_not_read(kept, tmp_path, place):
    content = bytearray(path_of(tmp_path).read_bytes())
    content[place] ^= 1
    path_of(tmp_path).write_bytes(content)
    with pytest.raises(UnreadableMatchError):
        kept.rows("job-1")


@pytest.mark.parametrize("n_bytes", [0, 1, 100])
def test_a_file_that_was_cut_off_is_not_read(kept, tmp_path, n_bytes):
    content = path_of(tmp_path).read_bytes()
    path_of(tmp_path).write_bytes(content[:n_bytes] if n_bytes != 100 else content[:-4])
    with pytest.raises(UnreadableMatchError, match="the file of kept match job-1 is damaged; delete it"):
        kept.rows("job-1")
    kept.delete("job-1")


def test_a_file_under_another_name_is_not_read(kept, tmp_path):
    path_of(tmp_path).rename(tmp_path / "matches" / "job-2.match")
    with pytest.raises(UnreadableMatchError):
        kept.find("job-2")
