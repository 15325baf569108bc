"""Files of records: what is read, and that no file makes reading fail in a way that others could see."""

import json
import os
from functools import partial

import numpy as np
import pytest

from analyses.job.job import JobError
from analyses.sums.records import DeclaredRecord, Record
from analyses.sums.secure_sum import SumParams
from device.records import KeptRecord, UnusableRecordError, largest_file_bytes, read_record

DECLARED = DeclaredRecord(2, 9)
QUESTION = SumParams(analysis="secure-mean", record="steps", length=2, largest=10, largest_weight=9)


def test_a_record_is_its_values_and_its_weight_which_is_1_by_default(tmp_path):
    path = tmp_path / "steps.json"
    for text, values, weight in (
        ('{"values": [1.5, -2], "weight": 3}', [1.5, -2.0], 3),
        ('{"values": [1e300, 0]}', [1e300, 0.0], 1),
        (f'{{"values": [1, {10**30}], "weight": -{10**400}}}', [1.0, 1e30], -(10**400)),
    ):
        path.write_text(text)
        record = read_record(path, DECLARED)
        assert (record.values.tolist(), record.weight) == (values, weight)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        '{"value": [1]}',
        '{"values": "12"}',
        '{"values": ["12"]}',
        '{"values": [true]}',
        '{"values": [null]}',
        '{"values": [[1]]}',
        '{"values": {"1": 2}}',
        '{"values": [1], "weight": 1.5}',
        '{"values": [1], "weight": true}',
        '{"values": [1], "weight": null}',
        f'{{"values": [1{"0" * 400}]}}',
        "[" * 60_000,
    ],
)
def test_what_is_no_record_is_refused_without_showing_it(tmp_path, text):
    path = tmp_path / "steps.json"
    path.write_text(text)
    with pytest.raises(UnusableRecordError, match="not of the form") as caught:
        read_record(path, DECLARED)
    assert "12" not in str(caught.value).removeprefix(str(path))


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("pipe", "not a regular file"), (".", "irectory"), ("absent", "cannot be read")):
        with pytest.raises(UnusableRecordError, match=words):
            read_record(tmp_path / name, DECLARED)


@pytest.mark.parametrize("declared", [DECLARED, DeclaredRecord()])
def test_a_file_is_read_as_far_as_its_declaration_says(tmp_path, declared):
    path, most_bytes = tmp_path / "steps.json", largest_file_bytes(declared)
    text = '{"values": [1, 2]}'
    path.write_text(text + " " * (most_bytes - len(text)))
    assert read_record(path, declared).values.tolist() == [1.0, 2.0]
    path.write_text(text + " " * (most_bytes - len(text) + 1))
    with pytest.raises(UnusableRecordError, match=f"longer than {most_bytes} bytes"):
        read_record(path, declared)


def test_the_longest_way_to_write_numbers_fits(tmp_path):
    declared, path = DeclaredRecord(50_000), tmp_path / "steps.json"
    values = [-(2.0**-1074) * (1 + 2 * i) for i in range(50_000)]
    path.write_text(json.dumps({"values": values}, indent=16))
    assert read_record(path, declared).values.tolist() == values


@pytest.mark.parametrize(
    "error", [UnusableRecordError("gone"), MemoryError(), RecursionError(), OSError(), KeyError("x")]
)
def test_whatever_happens_to_reading_zeros_are_contributed(error):
    def read():
        raise error

    found = KeptRecord(DECLARED, read).contribute(QUESTION)
    assert (found.vector.tolist(), found.weight) == ([0.0, 0.0], 0)
    assert found.not_used_because == ("gone" if str(error) == "gone" else f"reading it failed: {type(error).__name__}")


def test_a_question_that_is_not_as_declared_is_refused_before_anything_is_read():
    def read():
        raise AssertionError("the record was read")

    with pytest.raises(JobError, match="length"):
        KeptRecord(DeclaredRecord(3, 9), read).contribute(QUESTION)


def test_the_owner_is_told_what_is_wrong_and_nothing_else_shows_it(tmp_path):
    kept = KeptRecord(DECLARED, partial(read_record, tmp_path / "absent", DECLARED))
    assert "cannot be read" in kept.why_unusable()
    assert KeptRecord(DECLARED, lambda: Record(np.ones(2))).why_unusable() == ""
    assert "it has 3 values" in KeptRecord(DECLARED, lambda: Record(np.ones(3))).why_unusable()
    assert repr(kept) == f"KeptRecord(declared={DECLARED!r})"
