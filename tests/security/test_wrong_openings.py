"""A party that adds to its share of the noisy opening, in jobs with `security = "malicious"`: every such lie is found.

Among three parties it ends the job with nothing released; where N - 2t - 1 allows it the liar is named, and the answer
is right without it. Without the mode the answer of three parties is another one, and nobody notices.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

import numpy as np
import pytest
from deviations import CASES, HELPERS, plan_of, run_once, tail_of, wrong_products
from lying_dealers import shifted_opening

from analyses.job.job import JobError
from analyses.rows.joint_computation import JointComputation
from analyses.run_locally import local_network
from mpc.errors import InconsistentSharesError, PeerViolationError

MALICIOUS = {"security": "malicious"}


PROVEN = (
    "principal components",
    "second moments",
    "low rank",
    "least squares",
    "logistic regression by moments",
    "logistic regression by gradients, order 1",
    "logistic regression by gradients, order 3",
    "pattern counts, `mpc`, two owners",
    "pattern counts, `mpc`, three owners and more",
    "cross-tables",
    "circuits with comparisons",
    "clustering, `mpc`, pairs of owners",
    "clustering, `mpc`, `joint` cells of three owners and more",
    "moments, `mpc`, order 1",
    "moments, `mpc`, order 2",
    "moments, `mpc`, order 3 and more",
)


@contextmanager
def lies(*senders: int) -> Iterator[list[int]]:
    lied: list[int] = []
    fault = shifted_opening(lambda message: message.sender in senders, lied)
    with mock.patch("deviations.local_network", partial(local_network, fault=fault)):
        yield lied


def test_of_all_cases_of_the_registry_the_mode_takes_these():
    refused = []
    for name, case in CASES.items():
        try:
            plan_of(case, case.tables(), **MALICIOUS)
        except JobError:
            refused.append(name)
    assert [name for name in CASES if name not in refused] == list(PROVEN)


@pytest.mark.parametrize("name", PROVEN)
async def test_a_wrong_share_at_the_opening_of_three_ends_the_job_with_nothing_released(name):
    case = CASES[name]
    plan = plan_of(case, case.tables(), **MALICIOUS)
    with lies(2) as lied:
        ended = await run_once(plan, case.tables())
    assert lied
    assert ended.opened is None
    assert isinstance(ended.error, InconsistentSharesError)


async def test_the_same_share_opens_another_answer_where_parties_are_trusted():
    case = CASES["principal components"]
    plan = plan_of(case, case.tables())
    honest = await run_once(plan, case.tables())
    with lies(2) as lied:
        ended = await run_once(plan, case.tables())
    assert lied
    assert ended.error is None
    assert (ended.opened != honest.opened).any()


FOUR, FIVE = (*HELPERS, "four"), (*HELPERS, "four", "five")


@pytest.mark.parametrize("name", ["principal components", "pattern counts, `mpc`, two owners"])
async def test_of_four_the_liar_is_named_and_the_answer_is_right(name):
    case = CASES[name]
    plan = plan_of(case, case.tables(), compute=FOUR, colluding=1, **MALICIOUS)
    honest = await run_once(plan, case.tables())
    with lies(3) as lied:
        ended = await run_once(plan, case.tables())
    assert lied
    assert ended.error is None
    assert np.array_equal(ended.opened, honest.opened)
    assert ended.wrong == (3,)


@pytest.mark.parametrize("liars", [(1,), (2, 5)])
async def test_of_five_with_two_colluding_nobody_is_named_by_shares_that_two_could_have_chosen(liars):
    """Two shares that are chosen together can make a third one look wrong: one correction would be one too many."""
    case = CASES["principal components"]
    plan = plan_of(case, case.tables(), compute=FIVE, colluding=2, **MALICIOUS)
    with lies(*liars) as lied:
        ended = await run_once(plan, case.tables())
    assert set(lied) == set(liars)
    assert ended.opened is None
    assert isinstance(ended.error, InconsistentSharesError)


@pytest.mark.parametrize("liar", [1, 3])
@pytest.mark.parametrize(
    "name", ["principal components", "pattern counts, `mpc`, two owners", "moments, `mpc`, order 2"]
)
async def test_a_compute_party_that_sums_wrongly_ends_the_job_and_is_named(name, liar):
    """The products of such a job are multiplied by nothing else: the sum alone is wrong, by 1 in one entry."""
    case = CASES[name]
    plan = plan_of(case, case.tables(), **MALICIOUS)
    assert not plan.has_intermediate_products
    with wrong_products(liar, lambda segment: {0: 1}) as reduced:
        ended = await run_once(plan, case.tables())
    assert reduced
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == liar


@contextmanager
def larger_noise(liar: int, amount: int) -> Iterator[None]:
    """A party adds to the first entry of the noise that it draws for the answer."""
    draw = JointComputation.draw

    async def drawing(self, release):
        noise = await draw(self, release)
        if noise is not None and self.me == liar:
            noise.reshape(-1)[0] += amount
        return noise

    with mock.patch.object(JointComputation, "draw", drawing):
        yield


def beyond(plan) -> int:
    """A number beyond the norm of all noise that is no more than noise can be."""
    return 2 * tail_of(plan) * math.isqrt(10_000)


async def test_larger_noise_shifts_the_answer_where_parties_are_trusted():
    case = CASES["principal components"]
    plan = plan_of(case, case.tables())
    honest = await run_once(plan, case.tables())
    with larger_noise(2, beyond(plan)):
        ended = await run_once(plan, case.tables())
    assert ended.error is None
    assert (ended.opened - honest.opened).tolist() == [beyond(plan), *[0] * (len(honest.opened) - 1)]


@pytest.mark.parametrize("name", PROVEN)
async def test_larger_noise_ends_the_job_and_names_the_party(name):
    case = CASES[name]
    plan = plan_of(case, case.tables(), **MALICIOUS)
    with larger_noise(2, beyond(plan)):
        ended = await run_once(plan, case.tables())
    assert ended.opened is None
    assert isinstance(ended.error, PeerViolationError)
    assert ended.error.member == 2
