import subprocess
import sys

import pytest

from service.settings import Settings
from service.settings_tree import SettingsError
from service.trust.changes import check_changes


class Example(Settings):
    name: str = "a"
    size: int = 1
    limit: int = 2


def test_the_fields_that_differ_are_named():
    assert check_changes(Example(), Example(limit=3), ("limit",)) == ["limit"]
    assert check_changes(Example(), Example(), ()) == []


def test_fields_that_may_not_change_are_refused_all_at_once():
    with pytest.raises(SettingsError, match=r"^name, size: changes only when the service is restarted; nothing was"):
        check_changes(Example(), Example(name="b", size=2, limit=3), ("limit",))


HELD = """

import asyncio, os, signal
from service.trust.changes import at_hangup

async def serve(signals):
    heard = []
    with at_hangup(lambda: heard.append(1)):
        for _ in range(signals):
            await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGHUP)
        while len(heard) <= signals:
            await asyncio.sleep(0.01)

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
for signals in (2, 0):  # a coordinator that stood by serves again when it leads
    os.kill(os.getpid(), signal.SIGHUP)
    asyncio.run(serve(signals))
print("alive")
"""


def test_a_hangup_before_a_service_can_read_its_files_again_waits_for_that_and_ends_nothing():
    found = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, "alive\n"), found.stderr
