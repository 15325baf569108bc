"""Intervals of generalised linear models from one release: the weights that made the rows are known.

python -m bench.coverage.models              what intervals hold where somebody vouches for numbers that are skewed
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from analyses.job.schema import Table
from analyses.kept_moments.questions import ask
from bench.coverage.answers import SHARES, made_up_table, measured, released
from bench.coverage.record import Coverage

FEATURES = ["clinic.age", "shop.visits", "clinic.risk", "bank.owns"]
OF_RATES = [0.02, -0.3, 0.3, 0.8, 0.4, -1.0]
OF_ODDS = [0.04, -0.5, 0.3, 0.6, -0.4]
ABOVE = [0.5, -1.5]
"""Weights of age, visits, the two further risks, owning and, of rates, the intercept; and log odds of being above."""

OF_LATE = [1.0, 2.0, -1.0, -2.0]
"""Log odds of the two further risks, owning, and the intercept, of a yes or no that goes with categories alone."""

DISPERSION = 0.5
"""Variance of events and costs beyond their mean's own, in squares of it."""

QUESTIONS: Mapping[str, tuple[str, dict[str, Any], Sequence[float]]] = {
    "poisson": ("poisson", {"label": "bank.claims", "columns": FEATURES}, OF_RATES),
    "negative-binomial": ("negative-binomial", {"label": "bank.events", "columns": FEATURES}, OF_RATES),
    "gamma": ("gamma", {"label": "bank.cost", "columns": FEATURES}, OF_RATES),
    "ordinal": ("ordinal", {"label": "shop.grade", "columns": FEATURES}, [*OF_ODDS, *ABOVE]),
    "multinomial": ("multinomial", {"label": "clinic.ill", "columns": FEATURES}, [*OF_ODDS, -0.5]),
    "logistic": ("logistic", {"label": "clinic.ill", "columns": FEATURES}, [*OF_ODDS, -0.5]),
    "logistic, categories": (
        "logistic",
        {"label": "shop.late", "columns": ["clinic.risk", "bank.owns"]},
        OF_LATE,
    ),
}
"""What is asked to the question, what it takes, and what its numbers are in the population."""

EFFECTS = (0.1, 0.25, 0.5)
"""Weights, per standard deviation, of exponential numbers."""


def models(runs: int) -> Iterator[Coverage]:
    """Yield the coverage of the intervals of each model, about the weights that the rows were made with."""
    asked = {
        what: (name, {**given, "normal": True}, true, "interval") for what, (name, given, true) in QUESTIONS.items()
    }
    yield from measured(asked, tables_of, runs)


def skewed(runs: int, effects: Sequence[float] = EFFECTS, n_rows: int = 20_000) -> Iterator[Coverage]:
    """Yield the coverage of the intervals of two exponential numbers that are said to be normal, without noise."""
    for effect in effects:
        held: dict[str, list[list[bool]]] = {what: [] for what in ("poisson", "ordinal", "multinomial", "logistic")}
        for run in range(runs):
            release = released(skewed_tables_of(n_rows, 100 + run, effect), 1e6, None)
            for what, hits in held.items():
                ends = ask(release, what, **QUESTIONS[what][1], normal=True).table["interval"][:2]
                pairs = zip(ends, (effect, -effect), strict=True)
                hits.append([one is not None and one[0] <= value <= one[1] for one, value in pairs])
        for what, hits in held.items():
            yield Coverage.of(f"second moments: {what}", f"exponential, effect {effect}", 1e6, runs, np.array(hits))


def skewed_tables_of(n_rows: int, seed: int, effect: float) -> list[Table]:
    """Return the same columns with age and visits exponential of deviation 1, and weights `effect` and its negative."""
    rng = np.random.default_rng(seed)
    age, visits = np.minimum(rng.exponential(size=(2, n_rows)), 8.0)
    risk, owns = rng.choice(3, n_rows, p=SHARES), rng.random(n_rows) < 0.3
    odds = effect * (age - visits) + 0.3 * (risk == 1) + 0.6 * (risk == 2) - 0.4 * owns
    claims = rng.poisson(np.exp(odds - 0.5))
    latent, ill = odds + rng.logistic(size=n_rows), odds - 0.5 + rng.logistic(size=n_rows) > 0
    return [
        made_up_table("bank", {"owns": (0, 1, owns), "claims": (0, 60, claims)}),
        made_up_table("clinic", {"age": (0, 8, age), "ill": (0, 1, ill)}, {"risk": risk}),
        made_up_table("shop", {"visits": (0, 8, visits)}, {"grade": (latent > 0).astype(int) + (latent > 1.5)}),
    ]


def tables_of(n_rows: int, seed: int) -> list[Table]:
    """Return three owners' rows: numbers that are normal about a mean of each risk, and three labels of them."""
    rng = np.random.default_rng(seed)
    common, risk, owns = rng.normal(size=n_rows), rng.choice(3, n_rows, p=SHARES), rng.random(n_rows) < 0.3
    age = 48 + 2 * risk + 10 * (0.6 * common + 0.8 * rng.normal(size=n_rows))
    visits = 0.5 * common + np.sqrt(0.75) * rng.normal(size=n_rows)
    features = np.column_stack([age - 50, visits, risk == 1, risk == 2, owns])
    claims = rng.poisson(np.exp(features @ OF_RATES[:-1] + OF_RATES[-1] + 50 * OF_RATES[0]))
    latent = features @ OF_ODDS + 50 * OF_ODDS[0] + rng.logistic(size=n_rows)
    grade = (latent > -ABOVE[0]).astype(int) + (latent > -ABOVE[1])
    ill = features @ OF_ODDS + 50 * OF_ODDS[0] - 0.5 + rng.logistic(size=n_rows) > 0
    mean = np.exp(features @ OF_RATES[:-1] + OF_RATES[-1] + 50 * OF_RATES[0])
    frailty = rng.gamma(1 / DISPERSION, DISPERSION, (2, n_rows))
    events, cost = rng.poisson(mean * frailty[0]), mean * frailty[1]
    late = features[:, 2:] @ OF_LATE[:-1] + OF_LATE[-1] + rng.logistic(size=n_rows) > 0
    labels = {"claims": (0, 30, claims), "events": (0, 50, events), "cost": (0, 50, cost)}
    return [
        made_up_table("bank", {"owns": (0, 1, owns), **labels}),
        made_up_table("clinic", {"age": (0, 100, age), "ill": (0, 1, ill)}, {"risk": risk}),
        made_up_table("shop", {"visits": (-4, 4, visits), "late": (0, 1, late)}, {"grade": grade}),
    ]


if __name__ == "__main__":
    for one in skewed(8):
        print(f"{one.table:24} {one.what:28} held {one.held}", flush=True)
