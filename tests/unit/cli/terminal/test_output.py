"""What commands print arrives on any terminal and in any pipe."""

import io
import sys
import tomllib

import pytest

from cli.terminal.output import print_anywhere, print_text, print_toml, say

ENCODINGS = ("ascii", "cp1252", "latin-1", "koi8-r", "gbk", "shift_jis", "utf-8")
TITLES = ("Größe 😀", "Ελλάδα", "日本語", "a\u200bb", "naïve — 50 %", "lone \udce9 byte")


def at_terminal(monkeypatch, encoding):
    """Let standard output and error have one encoding, as strict as Python makes them."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict"))
    print_anywhere()


def printed(stream):
    stream.flush()
    return stream.buffer.getvalue()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_any_title_prints_on_any_terminal(monkeypatch, encoding):
    at_terminal(monkeypatch, encoding)
    for title in TITLES:
        print_text(title)
        say(title)
    for stream in (sys.stdout, sys.stderr):
        shown = printed(stream).decode(encoding).splitlines()
        for title, line in zip(TITLES, shown, strict=True):
            assert all(letter in line or f"{ord(letter):04x}" in line for letter in title)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_drafted_configuration_is_toml_on_any_terminal(monkeypatch, encoding):
    for title in TITLES[:-1]:
        at_terminal(monkeypatch, encoding)
        print_toml(f'["{title}"]\nx = "{title}"')
        assert tomllib.loads(printed(sys.stdout).decode("utf-8")) == {title: {"x": title}}
