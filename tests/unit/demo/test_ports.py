"""Ports that no two callers are given, whether or not anything listens on them yet."""

import os
import socket
import subprocess
import sys

import pytest

from demo.ports import KEPT, PORTS, free_ports, free_row_of_ports

HOLDER = """
import sys
from demo.ports import free_ports
print(*free_ports(5), flush=True)
sys.stdin.read()
"""


def open_files():
    return len(os.listdir("/proc/self/fd"))


def drawing(monkeypatch, *ports):
    """The next draws are these."""
    monkeypatch.setattr("random.SystemRandom.choices", lambda self, population, k: list(ports))


def test_a_port_is_given_once_by_a_process(monkeypatch):
    (first,) = free_ports(1)
    drawing(monkeypatch, first)
    with pytest.raises(OSError, match="were all taken"):
        free_ports(1)
    with pytest.raises(OSError, match="were all taken"):
        free_row_of_ports(1)


def test_what_another_process_was_given_is_given_to_nobody_before_that_has_ended(monkeypatch):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        theirs = [int(port) for port in holder.stdout.readline().split()]
        drawing(monkeypatch, *theirs)
        with pytest.raises(OSError, match="were all taken"):
            free_ports(1)
        drawing(monkeypatch, theirs[0] - 1)
        with pytest.raises(OSError, match="were all taken"):
            free_row_of_ports(2)
    finally:
        holder.communicate()
    drawing(monkeypatch, *theirs)
    assert free_ports(1) == theirs[:1]


def test_a_port_on_which_somebody_listens_is_not_given(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        drawing(monkeypatch, listener.getsockname()[1])
        with pytest.raises(OSError, match="were all taken"):
            free_ports(1)


def test_a_row_is_free_as_a_whole_and_within_the_range():
    first = free_row_of_ports(7)
    assert PORTS.start <= first <= PORTS.stop - 7
    drawn = free_ports(50)
    assert not set(drawn) & set(range(first, first + 7))
    assert len(set(drawn)) == 50


def test_a_process_keeps_so_many_and_gives_back_the_oldest(monkeypatch):
    oldest = free_ports(1)
    free_ports(KEPT)
    before = open_files()
    free_ports(KEPT)
    assert open_files() == before
    drawing(monkeypatch, *oldest)
    assert free_ports(1) == oldest


def test_a_row_that_is_partly_taken_is_given_back(monkeypatch):
    (taken,) = free_ports(1)
    before = open_files()
    drawing(monkeypatch, taken - 2)
    with pytest.raises(OSError, match="were all taken"):
        free_row_of_ports(3)
    assert open_files() == before
