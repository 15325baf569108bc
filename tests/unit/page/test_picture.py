import re
import xml.etree.ElementTree as ET

from page.picture import steps


def test_a_line_rises_to_the_part_that_is_spent_and_never_above_all():
    svg = steps([0.25, 0.5, 7.0], "spent")
    path = ET.fromstring(svg).find("path").get("d")
    heights = [float(y) for y in re.findall(r"V([\d.]+)", path)]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] - heights[1] == heights[1] - heights[2] > 0
    assert heights[-1] >= 0
    assert 'aria-label="spent: 100% after 3 jobs"' in svg


def test_labels_of_others_are_escaped():
    svg = steps([0.5], '"><script>alert(1)</script>')
    assert "<script" not in svg
    ET.fromstring(svg)
