"""Any member deviates at any message of any protocol, in what it sends or draws.

With `security = "malicious"` the answer is right or the job ends with nothing opened, and whoever is accused is the
member that deviated. Without, an answer may be wrong; but nothing else leaves an honest member, nobody hangs, and
nothing fails but by a declared error.

The quick tests take a few deviations of each job, the slow ones many, other ones for each job. Over services they are
in tests/services/test_deviating_party.py.
"""

import numpy as np
import pytest
from deviating_jobs import DeviatingJob
from deviating_member import DRAWS, Point, in_turn
from deviations import CASES, FRACTIONS
from registry_jobs import HELPERS

from mpc.proofs.inner_products import Proofs
from mpc.protocol.session import COORDINATOR

FIVE = (*HELPERS, "four", "five")
COUNTS = "pattern counts, `mpc`, three owners and more"
CIRCUIT = "circuits with comparisons"
CUBES = "moments, `mpc`, order 3 and more"
PROVEN = (
    "principal components",
    "second moments",
    "low rank",
    "least squares",
    "logistic regression by moments",
    "pattern counts, `mpc`, two owners",
    COUNTS,
    "cross-tables",
    "moments, `mpc`, order 2",
    CUBES,
    "clustering, `mpc`, pairs of owners",
    "clustering, `mpc`, `joint` cells of three owners and more",
    "logistic regression by gradients, order 1",
    "logistic regression by gradients, order 3",
    CIRCUIT,
)
WHO = {
    "an owner that computes": ((), 1),
    "another owner that computes": ((), 2),
    "a helper": (HELPERS, 3),
    "an owner without shares": (HELPERS, 4),
    "a helper of five": (FIVE, 2),
}
JOBS = [(name, who) for name in PROVEN for who, (compute, _) in WHO.items() if compute or len(CASES[name].owners) > 2]
QUICK = [
    ("principal components", "an owner that computes"),
    ("least squares", "an owner without shares"),
    (COUNTS, "a helper"),
    ("cross-tables", "a helper of five"),
    (CUBES, "another owner that computes"),
    ("logistic regression by gradients, order 3", "an owner without shares"),
]


def job_of(name, who, security="malicious"):
    compute, liar = WHO[who]
    return DeviatingJob(CASES[name], security, compute, liar, 2 if compute == FIVE else 0)


def shifts_the_answer(point):
    """KNOWN EXCEPTION: the noise that a party draws, of a size that is proven.

    It is a constant, which the party knows already.
    """
    return point.stage == DRAWS


def is_shifted(job, ended):
    return any(shift.any() for shift in job.shift(ended) or ())


def check(job, point, deviation):
    ended = job.deviating(deviation, point)
    assert ended.has_deviated
    job.check_end(ended)
    job.check_what_honest_members_send(ended)
    if job.security == "malicious":
        job.check_blame(ended)
        assert shifts_the_answer(point) or not is_shifted(job, ended), (point, deviation)


@pytest.mark.parametrize(("name", "who"), QUICK)
def test_a_deviation_at_some_messages_of_a_malicious_job_leaves_the_answer_right_or_ends_it(name, who):
    job = job_of(name, who)
    for point, deviation in in_turn(job.points(), PROVEN.index(name), 4):
        check(job, point, deviation)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "who"), JOBS[::3])
def test_a_deviation_at_other_messages_of_a_malicious_job_leaves_the_answer_right_or_ends_it(name, who):
    job = job_of(name, who)
    for point, deviation in in_turn(job.points(), 100 + JOBS.index((name, who)), 3):
        check(job, point, deviation)


def test_other_noise_shifts_an_answer_by_a_constant():
    """The exception above: there is one, and the tables have no part in it."""
    job, point = job_of("principal components", "an owner that computes"), Point(DRAWS, 0)
    shifts = [
        job.shift(job.deviating("another element", point, of_neighbours=other), of_neighbours=other)
        for other in (False, True)
    ]
    assert shifts[0][0].any()
    assert all(np.array_equal(one, other) for one, other in zip(*shifts, strict=True))


@pytest.mark.parametrize(
    ("name", "who", "stage"),
    [("principal components", "an owner that computes", "opening"), (COUNTS, "a helper", "patterns/opening 0")],
)
def test_a_wrong_share_at_the_opening_opens_nothing(name, who, stage):
    job = job_of(name, who)
    ended = job.deviating("another element", Point(stage, 0))
    assert ended.has_deviated
    assert not ended.opened


@pytest.mark.parametrize(
    "point", [Point("bits 0/input", 0), Point("/products", 4), Point("opening 0", 0), Point("opening 5", 0)], ids=str
)
def test_a_lie_about_a_bit_a_product_or_what_is_masked_in_a_fraction_opens_nothing(point):
    """Mask, factor, first and last of the masked openings of a quotient that is multiplied and cut off."""
    job = DeviatingJob(FRACTIONS, "malicious", (), 1)
    ended = job.deviating("another element", point)
    assert ended.has_deviated
    assert not ended.opened
    job.check_end(ended)
    job.check_what_honest_members_send(ended)
    job.check_blame(ended)


def test_where_proofs_are_not_judged_the_tests_above_see_that_the_answer_is_wrong(monkeypatch):
    job = job_of(COUNTS, "another owner that computes")
    monkeypatch.setattr(Proofs, "_judge", lambda *arguments: [])
    with pytest.raises(AssertionError, match="patterns/products"):
        check(job, Point("patterns/products", 0), "other elements")


WITH_COORDINATOR = [name for name in CASES if CASES[name].variant.startswith(("matrix", "secure", "distribution, m"))]
WITH_COORDINATOR += ["logistic regression by gradients, order 1", "moments, `threshold`"]
TRUSTED = [(name, 1 + i % 3) for i, name in enumerate(CASES)] + [(name, COORDINATOR) for name in WITH_COORDINATOR]
QUICK_TRUSTED = [
    ("logistic regression by gradients, order 3", 1),
    (CIRCUIT, 1),
    ("sums", 3),
    ("sums", COORDINATOR),
    ("any whose rows are matched in secret", 3),
]


def trusted(name, liar):
    """A job whose members are trusted to follow the protocol."""
    return DeviatingJob(CASES[name], "semi-honest", HELPERS, liar)


@pytest.mark.parametrize(("name", "liar"), QUICK_TRUSTED)
def test_a_deviation_at_some_messages_of_a_trusting_job_opens_nothing_else_and_hangs_nobody(name, liar):
    job = trusted(name, liar)
    for point, deviation in in_turn(job.points(), QUICK_TRUSTED.index((name, liar)), 3):
        check(job, point, deviation)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "liar"), TRUSTED)
def test_a_deviation_at_other_messages_of_a_trusting_job_opens_nothing_else_and_hangs_nobody(name, liar):
    job = trusted(name, liar)
    for point, deviation in in_turn(job.points(), 100 + TRUSTED.index((name, liar)), 2):
        check(job, point, deviation)
