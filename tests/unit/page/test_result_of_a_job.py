"""How the page of a coordinator shows a result: with names, a picture, and also where an earlier version wrote it."""

import json
import re
from xml.etree import ElementTree

import pytest
from analyst_results import view_of

from analyses.registry import ANALYSES
from page.coordinator_page import lines_shown, picture_shown


@pytest.mark.parametrize("name", ANALYSES)
def test_a_result_has_a_picture_with_an_alternative_and_its_lines(name):
    view = view_of(name)
    result = json.loads(view.result_json)
    shown = picture_shown(result)
    assert shown["why_none"] == ""
    for panel in shown["panels"]:
        root = ElementTree.fromstring(panel)
        assert root.get("role") == "img"
        assert len(root.get("aria-label")) > 20
        assert not re.search(r"style=|href=", panel)  # which the policy of the page would refuse
    lines = lines_shown(result, view.job_json)
    assert lines.startswith("about rows of bank, hospital and telco")
    assert "privacy" in lines


def test_names_of_others_are_escaped_in_the_picture():
    result = json.loads(view_of("least-squares").result_json)
    names = [f"bank.<script>{at}" for at in range(len(result["features"]))]
    (panel,) = picture_shown(result | {"features": names, "label": "<b>&"})["panels"]
    assert "<script>" not in panel
    assert "&lt;b&gt;&amp;" in panel


def test_a_result_that_cannot_be_drawn_or_worded_says_so_and_harms_nothing():
    assert picture_shown({"analysis": "pca"})["why_none"].endswith("it is not as this version writes it")
    asked = view_of("pca").job_json
    assert lines_shown({"analysis": "pca"}, asked) == ""
    assert "no analysis 'of yesterday' here" in picture_shown({"analysis": "of yesterday"})["why_none"]
    unknown = json.dumps(json.loads(asked) | {"analysis": "of yesterday"})
    assert lines_shown({"analysis": "of yesterday", "answer": 42}, unknown).endswith("answer: 42")
    assert picture_shown({}) == {"panels": [], "why_none": ""}
    assert lines_shown({}, asked) == ""
