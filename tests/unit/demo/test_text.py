import pytest

from demo.catalogue import DEMOS
from demo.text import next_line

DEMO = {demo.name: demo for demo in DEMOS}


@pytest.mark.parametrize(
    ("epsilon", "recommended"), [(None, True), (1.0, True), (0.06, True), (0.05, False), (0.01, False)]
)
def test_a_demo_does_not_recommend_itself(epsilon, recommended):
    line = next_line(DEMO["pca"], {"epsilon": epsilon})
    assert ("demo pca --epsilon 0.05" in line) == recommended
    assert ("with its defaults" in line) != recommended


def test_a_method_that_was_shown_is_not_recommended():
    assert "--method" not in next_line(DEMO["low-rank"], {"method": "sketch"})
    assert "--method sketch" in next_line(DEMO["low-rank"], {"method": "mpc"})


@pytest.mark.parametrize(("name", "method"), [("least-squares", "sketch"), ("moments", "threshold")])
def test_after_a_dear_method_no_smaller_epsilon_is_recommended(name, method):
    line = next_line(DEMO[name], {"method": method, "epsilon": None})
    assert "--epsilon" not in line
    assert f"demo {name}     by mpc, with its defaults" in line


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_what_a_demo_recommends_is_an_option_of_it(demo):
    name, value, _ = demo.next
    assert value in demo.methods if name == "method" else name == "epsilon"
