"""Every analysis spends what it is given: noise that is larger than the target asks for is thrown away."""

import pytest
from registry_jobs import VARIANTS

from analyses.job.job import JobError
from analyses.registry import ANALYSES, analysis_of
from dp.cost.composition import composed_epsilon
from dp.cost.views import VIEWS, views_of, views_to_calibrate

EPSILONS = (0.5, 4.0)
DELTA = 1e-6

LEAST = {"distribution, masked": 0.87}
"""Where less than 98 % is spent: the Skellam parameter of a masked tree is a whole number, and small at epsilon 4."""


def spent(variant, epsilon, view):
    """Return the part of epsilon that a job spends in the worst view that its target bounds."""
    privacy = {"epsilon": epsilon, "delta": DELTA, **({} if variant.privacy else {"view": view}), **variant.privacy}
    job = variant.job(compute=(), privacy=privacy)
    plan = analysis_of(job).plan(job, [table.schema for table in variant.tables().values()])
    views = set(views_to_calibrate(job.privacy.view)) & set(views_of(plan.privacy_unit))
    return max(composed_epsilon(plan.privacy_events(one), DELTA).epsilon for one in views) / epsilon


def test_every_analysis_is_among_them():
    assert {variant.analysis for variant in VARIANTS.values()} == set(ANALYSES)
    assert set(LEAST) < set(VARIANTS)


@pytest.mark.parametrize("view", [pytest.param(VIEWS[0], marks=pytest.mark.slow), *VIEWS[1:]])
@pytest.mark.parametrize("name", VARIANTS)
def test_no_analysis_spends_less_than_98_percent_of_its_epsilon_but_those_that_say_why(name, view):
    refused, found = [], []
    for epsilon in EPSILONS:
        try:
            found.append(spent(VARIANTS[name], epsilon, view))
        except JobError as error:
            refused.append(str(error))
    assert all("privacy.epsilon" in text for text in refused)  # noise would drown all there is
    assert found
    assert max(found) <= 1
    assert LEAST.get(name, 0.98) <= min(found)
    if name in LEAST:
        assert max(found) > 0.98 > min(found)
