"""SVG: where marks stand, and that long and hostile labels neither overlap nor do anything."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from results.drawing.chart import MAX_WHISKERS, Cells, Curves, Picture, Rows, Spectrum, Steps
from results.drawing.marks import PAPER, shortened
from results.drawing.svg import elements_of, svg_of

SVG = "{http://www.w3.org/2000/svg}"


def drawn(panel, heading=""):
    return ElementTree.fromstring(svg_of(Picture((panel,), heading)))


def of_class(root, name):
    return [one for one in root.iter() if one.get("class") == name]


def rows(n=3, **changes):
    values = {"labels": tuple(f"bank.x{at}" for at in range(n)), "values": tuple(map(float, range(1, n + 1)))}
    return Rows(**{"title": "Sums", "axis": "sum", **values, **changes})


def steps(n=4, **changes):
    return Steps(title="Bins", axis="age", height="rows", edges=tuple(range(n + 1)), values=(2.0,) * n, **changes)


def spectrum(**changes):
    given = {"title": "Spectrum", "axis": "v", "values": (8.0, 4.0, -1.0), "edge": 2.0, "n_kept": 1}
    return Spectrum(**(given | changes))


def test_bars_begin_at_zero_and_are_as_long_as_their_values():
    bars = of_class(drawn(rows(values=(1.0, 2.0, -1.0), has_bars=True)), "mark")
    lengths = [float(bar.get("width")) for bar in bars]
    starts = [float(bar.get("x")) for bar in bars]
    assert lengths == pytest.approx([lengths[0], 2 * lengths[0], lengths[0]], abs=0.2)
    assert starts == pytest.approx([starts[0], starts[0], starts[0] - lengths[0]], abs=0.2)


def test_points_lie_in_the_middle_of_their_whiskers():
    root = drawn(rows(intervals=((0.0, 2.0), None, (2.0, 4.0))))
    points = [float(one.get("cx")) for one in root.iter(f"{SVG}circle")]
    whiskers = [one.get("d") for one in of_class(root, "interval")][1:]  # the first is that of the legend
    ends = [[float(end) for end in re.match(r"M([\d.]+) [\d.]+H([\d.]+)", path).groups()] for path in whiskers]
    assert [sum(pair) / 2 for pair in ends] == pytest.approx([points[0], points[2]], abs=0.1)
    assert len(points) == 3


def test_rows_do_not_touch_each_other_and_long_labels_end_inside():
    names = tuple(f"hospital.{'very_' * 12}long_{at}" for at in range(25))
    root = drawn(rows(25, labels=names))
    labels = [one for one in of_class(root, "ink") if one.get("text-anchor") == "end"]
    heights = [float(one.get("y")) for one in labels]
    assert min(after - before for before, after in pairwise(heights)) >= 17
    assert [one.find(f"{SVG}title").text for one in labels] == list(names)
    assert all("…" in one.find(f"{SVG}title").tail for one in labels)
    width = float(root.get("width"))
    assert all(float(one.get("x")) - 6.3 * len(one.find(f"{SVG}title").tail) > -8 for one in labels)
    assert width < 700


def test_values_beside_rows_and_headings_end_inside():
    beside = rows(1, values=(98765432.1,), intervals=((98677232.1, 98853632.1),))
    root = drawn(beside, "A heading that is longer than the panel below it, which is not very wide, in any case")
    (said,) = [one for one in of_class(root, "ink") if one.text == "98,765,432 ± 88,200"]
    (heading,) = [one for one in of_class(root, "ink") if one.get("font-size") == "15"]
    width = float(root.get("width"))
    assert float(said.get("x")) + 6.3 * len(said.text) <= width
    assert 9 * len(heading.find(f"{SVG}title").tail) <= width


def test_an_axis_below_rows_has_several_numbers():
    root = drawn(rows(2, values=(-1.5, 2.4), labels=("a" * 60, "b" * 60)))
    ticks = [one for one in of_class(root, "ink") if one.get("text-anchor") == "middle"]
    assert len(ticks) >= 2 + 1  # and the name of the axis


def test_a_spectrum_leaves_out_what_a_logarithmic_axis_cannot_show():
    assert len(list(drawn(spectrum()).iter(f"{SVG}circle"))) == 2
    assert len(list(drawn(spectrum(is_log=False)).iter(f"{SVG}circle"))) == 3
    beside = drawn(spectrum(estimates=(7.0,), intervals=((6.0, 8.0),), exact=(7.0, 3.0, 1.0)))
    assert len(of_class(beside, "exact")) == 3 + 1  # and the legend
    assert len([one for one in beside.iter(f"{SVG}circle") if one.get("fill") == PAPER]) == 1 + 1


@pytest.mark.parametrize(("n", "is_band"), [(MAX_WHISKERS, False), (MAX_WHISKERS + 1, True)])
def test_many_steps_have_a_band_and_few_have_whiskers(n, is_band):
    root = drawn(steps(n, intervals=((1.0, 3.0),) * n))
    assert len(of_class(root, "interval")) == (0 if is_band else n + 1)  # and that of the legend
    assert len([one for one in root.iter(f"{SVG}title") if "2.0 ± 1.0" in one.text]) == n


def test_a_legend_goes_on_below_where_the_panel_ends():
    long = spectrum(estimates=(7.0,), intervals=((6.0, 8.0),), exact=(7.0, 3.0, 1.0))
    texts = [one for one in of_class(drawn(long), "ink") if "font-size" in one.attrib and one.text]
    assert all(float(one.get("x")) + 6.0 * len(one.text) < 480 for one in texts if one.get("text-anchor") == "start")
    assert len({one.get("y") for one in texts if one.text in ("private (released)", "exact, no privacy")}) == 2


def test_cells_are_darkest_at_the_largest_of_their_row():
    cells = Cells(title="Centres", labels=("age", "bmi"), heads=("a\n1 rows", "b\n2 rows"), values=((1, 5), (9, 9)))
    shades = [float(one.get("fill-opacity")) for one in of_class(drawn(cells), "mark")]
    assert shades == [0.05, 0.38, 0.05, 0.05]


def test_a_page_gets_each_panel_by_itself_and_a_file_all_of_them_below_a_heading():
    picture = Picture((rows(), steps()), "Churn")
    alone = elements_of(picture)
    widths = [float(ElementTree.fromstring(one).get("width")) for one in alone]
    whole = ElementTree.fromstring(svg_of(picture))
    assert len(alone) == 2
    assert float(whole.get("width")) == sum(widths)
    assert "Churn" in svg_of(picture)
    assert not any("Churn" in one for one in alone)


def test_nothing_in_a_picture_is_fetched_or_run():
    text = svg_of(Picture((rows(labels=("<script>", '" onload="x', "a&b")), steps()), "</svg>"))
    root = ElementTree.fromstring(text)
    assert not re.search(r"href|url\(|<script|<style|@import", text)
    assert not [name for one in root.iter() for name in one.attrib if name.startswith("on") or name == "style"]


def test_shortened_texts_keep_both_ends():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abc…fg"


def curves(**changes):
    given = {
        "places": (1.0, 8.0),
        "curves": (("released", (1.5, 1.1)), ("own", (1.2, 1.0))),
        "levels": (("none", (0.9,)),),
    }
    return Curves(**({"title": "Errors", "axis": "epsilon", "height": "error"} | given | changes))


def test_curves_go_through_their_values_in_a_colour_each_and_are_named():
    root = drawn(curves())
    found = [one.get("d") for one in of_class(root, "curve")][2:]  # the first two are those of the legend
    ends = [[float(end.split()[1]) for end in path.removeprefix("M").split("L")] for path in found]
    assert len({one.get("stroke") for one in of_class(root, "curve")}) == 2
    assert ends[0][0] < ends[0][1]  # a larger error is higher
    assert ends[0][0] < ends[1][0]
    assert {"released", "own", "none", "1", "8"} <= {one.text for one in of_class(root, "ink")}
    assert len([one for one in of_class(root, "axis") if one.get("stroke-dasharray") != "none"]) == 2
    assert "released at 8: 1.1; own at 1: 1.2" in root.get("aria-label")
