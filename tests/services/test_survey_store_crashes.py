"""A coordinator killed between the insertion of a response and `Taken`: who heard `Taken` is in the count, once."""

import signal

import pytest
from child_processes import child_process, end_of
from stores import surveys_in
from survey_store_children import N_DEVICES, take_and_die_at

from coordinator.stores.question import Outcome
from coordinator.stores.surveys import Given


@pytest.mark.parametrize(
    "stride", [pytest.param(23, id="few"), pytest.param(1, id="every step", marks=pytest.mark.slow)]
)
def test_what_was_called_taken_is_on_disk_and_what_is_sent_again_counts_once(tmp_path, stride):
    found = set()
    for step in range(0, 10**6, stride):
        folder = tmp_path / str(step)
        folder.mkdir()
        with child_process(take_and_die_at, step, folder) as child:
            exit_code = end_of(child)
        assert exit_code in (0, -signal.SIGKILL)
        heard = (folder / "taken").read_text().split() if (folder / "taken").exists() else []
        store = surveys_in(folder / "surveys.sqlite")
        counts = store.counts(1, N_DEVICES)
        assert set(counts.tolist()) <= {0, 1}
        assert [f"d{i}" for i in range(N_DEVICES) if counts[i]][: len(heard)] == heard
        found.add(int(counts.sum()) - len(heard))
        outcomes = store.take([Given(1, f"d{i}", i) for i in range(N_DEVICES)])  # who heard nothing sends again
        assert outcomes == [Outcome.REPEATED if counts[i] else Outcome.TAKEN for i in range(N_DEVICES)]
        assert store.counts(1, N_DEVICES).tolist() == [1] * N_DEVICES
        store.close()
        if exit_code == 0:
            break
    assert step > 2 * stride
    assert found <= {0, 1}
