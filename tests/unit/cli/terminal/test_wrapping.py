import pytest

from cli.terminal.output import print_text, print_toml
from cli.terminal.wrapping import HANGING, fitted, wrapped

LISTED = [
    "bank.customers: 1000 to 200000 rows, rows have ids",
    "  at once, within limits on epsilon: clustering, joint-mean, joint-sum, least-squares, pca",
]


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_lines_fit_a_terminal_and_what_is_left_of_one_is_indented_further(columns):
    found = list(fitted(LISTED, columns))
    assert all(len(line) < columns for line in found)
    assert " ".join(" ".join(found).split()) == " ".join(" ".join(LISTED).split())
    begin = [line for line in found if not line.startswith(" " * HANGING)]
    assert len(begin) == len(LISTED)
    assert found == LISTED or columns < 100


def test_a_word_that_is_longer_than_a_line_is_cut():
    assert list(fitted(["ab " + "x" * 50], 40)) == ["ab", " " * 4 + "x" * 35, " " * 4 + "x" * 15]


def test_no_line_begins_with_a_space_that_stood_between_words():
    assert wrapped("aaa bbb ccc", 7) == ["aaa bbb", "ccc"]


def test_text_for_people_fits_a_terminal_and_goes_into_a_pipe_as_it_is(monkeypatch, capsys):
    text = "a line of words that is longer than forty columns are\n\n  short"
    print_text(text)
    assert capsys.readouterr().out == text + "\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_text(text)
    shown = capsys.readouterr().out
    assert max(map(len, shown.split("\n"))) < 40
    assert shown.split() == text.split()
    print_toml(text)
    assert capsys.readouterr().out == text + "\n"


def test_a_line_that_begins_far_to_the_right_keeps_its_words_whole():
    head = " " * 56 + "Moiety  no privacy: all tables in one place"
    lines = list(fitted([head], 60))
    assert [word for line in lines for word in line.split()] == head.split()
    assert all(len(line) < 60 for line in lines)
