from dp.cost.composition import composed_epsilon
from dp.cost.report import describe
from dp.cost.views import VIEWS
from dp.mechanism.gram import NoisyGram


def mechanism(**changed):
    given = {"n_columns": 4, "squared_norm_bound": 100, "n_parties": 5, "colluding": 2, "party_mu": 20_000}
    return NoisyGram(**{**given, **changed})


def test_the_readable_report_names_both_views_and_never_rounds_epsilon_down():
    lines = describe(mechanism().report(1e-5))
    text = "\n".join(lines)
    assert "the coordinator alone" in text
    assert "the coordinator and 2 of 5 parties together" in text
    assert "add_or_remove_one" in text
    assert "replace_one" in text
    for view, line in zip(VIEWS, lines[-2:], strict=True):
        printed = float(line.split("epsilon = ")[1].split()[0])
        exact = mechanism().epsilon(view, 1e-5).epsilon
        assert exact <= printed < exact * 1.001


def test_the_readable_report_says_when_the_best_order_is_at_the_edge():
    assert "at the edge of the grid" in "\n".join(describe(mechanism(party_mu=2).report(1e-5)))
    assert "at the edge of the grid" not in "\n".join(describe(mechanism().report(1e-5)))


def test_releases_about_one_table_cost_more_than_each_and_less_than_the_sum_of_epsilons():
    event = mechanism().events("coalition")[0]
    one, two = composed_epsilon([event], 1e-5).epsilon, composed_epsilon([event, event], 1e-5).epsilon
    assert one < two < 2 * one


def test_a_view_without_any_guarantee_is_said_so():
    report = mechanism().report(1e-5)
    report["views"]["coalition"] |= {"epsilon": None, "order": None, "noise": "keys are known"}
    lines = describe(report)
    assert lines[-1] == ("Against the coordinator and 2 of 5 parties together: NO PRIVACY GUARANTEE; keys are known.")
    assert "epsilon = " in lines[-2]
