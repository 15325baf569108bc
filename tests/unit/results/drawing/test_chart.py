import pytest

from results.drawing.chart import (
    Cells,
    Picture,
    PictureError,
    Rows,
    Spectrum,
    Steps,
    around,
    legend_of,
    rows_of,
    shown,
    with_interval,
)

WORDS = {"title": "Sums", "axis": "sum", "what": "columns"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12.0, "12"), (-1234567.0, "-1,234,567"), (1234.5, "1,234"), (0.123456, "0.1235"), (2e9, "2e+09")],
)
def test_numbers_are_short(value, text):
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (12.345, (11.345, 13.345), "12.3 ± 1.0"),
        (12345.6, (12222.6, 12468.6), "12,346 ± 123"),
        (31.0, (30.99985, 31.00015), "31 ± 0.00015"),
        (5.0, (2.0, 6.0), "5 (2 to 6)"),
        (5.0, None, "5"),
        (5.0, (5.0, 5.0), "5 ± 0"),
        (5.0, (float("-inf"), float("inf")), "5"),
    ],
)
def test_a_value_stands_beside_its_error_with_as_many_digits_as_that_leaves(value, interval, text):
    assert with_interval(value, interval) == text


def test_intervals_are_those_of_standard_errors():
    assert around([1.0, 2.0], [0.5, None]) == (pytest.approx((0.020018, 1.979982)), None)
    assert around([1.0], None) == ()


def test_rows_keep_their_order_and_of_too_many_the_largest_are_kept():
    panel = rows_of(["a", "b", "c"], [1.0, -3.0, 2.0], **WORDS)
    assert (panel.labels, panel.values, panel.note) == (("a", "b", "c"), (1.0, -3.0, 2.0), ())
    panel = rows_of(["a", "b", "c"], [1.0, -3.0, 2.0], ((0.0, 2.0), (-4.0, -2.0), (1.0, 3.0)), most=2, **WORDS)
    assert (panel.labels, panel.values, panel.intervals) == (("b", "c"), (-3.0, 2.0), ((-4.0, -2.0), (1.0, 3.0)))
    assert panel.note == ("The 2 largest of 3 columns are shown; 1 are left out.",)
    assert rows_of(["a", "b", "c"], [1.0, -3.0, 2.0], weights=[5.0, 1.0, 4.0], most=2, **WORDS).labels == ("a", "c")


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_rows_without_numbers_are_nothing_to_draw(values):
    with pytest.raises(PictureError, match="nothing to draw"):
        rows_of(["a", "b"], values, **WORDS)


def test_a_picture_in_words_has_titles_labels_values_and_notes():
    rows = Rows(title="Sums", axis="sum", labels=("age",), values=(3.0,), intervals=((2.0, 4.0),), note=("Noisy.",))
    steps = Steps(title="Bins", axis="age", height="rows", edges=(0.0, 1.0), values=(7.0,))
    cells = Cells(title="Centres", labels=("age",), heads=("one", "two"), values=((1.0, 2.0),))
    spectrum = Spectrum(
        title="Spectrum", axis="v", values=(2.0, 1.0), estimates=(1.5,), intervals=((1.0, 2.0),), edge=0.5, n_kept=1
    )
    told = Picture((rows, steps, cells, spectrum), "Heading").alternative
    for words in (
        "Heading. Sums (sum). age: 3.0 ± 1.0. Noisy.",
        "Bins (rows by age). 0 to 1: 7.",
        "Centres. age: one 1, two 2.",
        "1: 2; 2: 1; noise subtracted, 1: 1.50 ± 0.50; 0.5 is the largest that noise alone shows.",
    ):
        assert words in told


def test_the_words_of_many_rows_end():
    rows = Rows(title="Sums", axis="sum", labels=tuple("a" * 99), values=(1.0,) * 99)
    assert "and 74 more" in Picture((rows,)).alternative


def test_a_legend_explains_what_is_drawn_and_nothing_else():
    rows = rows_of(["a"], [1.0], **WORDS)
    assert legend_of(rows) == []
    assert [kind for kind, _ in legend_of(rows_of(["a"], [1.0], ((0.0, 2.0),), **WORDS))] == ["interval"]
    spectrum = Spectrum(title="S", axis="v", values=(2.0,), edge=0.5, n_kept=1, exact=(1.0,))
    assert [kind for kind, _ in legend_of(spectrum)] == ["mark", "noise", "exact"]
