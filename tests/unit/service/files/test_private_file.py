"""Files that only their owner may read, written as a whole or not at all."""

import pytest

from service.files.private_file import write_private


def test_a_file_is_its_owners_alone_and_so_is_the_folder_that_is_made_for_it(tmp_path):
    path = write_private(tmp_path / "new" / "file", [b"one ", b"two"])
    assert path.read_bytes() == b"one two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    write_private(path, [b"three"])
    assert path.read_bytes() == b"three"


def test_what_fails_in_the_middle_leaves_what_was_there_and_nothing_else(tmp_path):
    path = write_private(tmp_path / "file", [b"before"])

    def parts():
        yield b"after"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write_private(path, parts())
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"before"
