"""Times that commands print: in UTC, whatever the zone of the machine is, and with their zone."""

import re
import time
from pathlib import Path

import pytest

from service.codes.printed_time import printed_time
from transport.calls.coordinator_client import EventView

AT_S = 1_600_000_000.0


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/New_York"])
def test_a_time_is_the_same_in_every_zone_and_names_it(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert printed_time(AT_S) == "2020-09-13 12:26:40 UTC"
        assert EventView(AT_S, "DONE", "", "", 0, "").as_text() == "12:26:40 UTC DONE"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_no_service_and_no_command_asks_for_the_zone_of_its_machine():
    root = Path(__file__).parents[4]
    rooms = ("analyst", "cli", "coordinator", "device", "page", "party", "service", "transport")
    of_the_machine = re.compile(r"localtime|\.ctime\(|fromtimestamp\([^,()]*\)|datetime\.now\(\)|strftime\([^,]*\)")
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for room in rooms
        for path in sorted((root / room).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if of_the_machine.search(line) and ".dt." not in line
    ]
    assert found == []
