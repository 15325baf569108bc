"""Answers from releases of tables that have no answer, or hardly one: no NaN or infinity, whatever shows them."""

import json
import math
import re
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from releases import plan_of, released, tables_of

from analyses.kept_moments.answer import AnswerError
from analyses.kept_moments.questions import QUESTIONS, ask
from analyses.kept_moments.synthetic import mixture
from analyses.pattern_count.questions import QUESTIONS as OF_COUNTS
from analyses.pattern_count.questions import ask_counts
from results.generic.answer import ReleaseAnswer

THREE = ["bank.income", "clinic.age", "shop.visits"]
OTHERS = {"label": "bank.income", "columns": ["clinic.age", "shop.visits", "clinic.risk"]}
OF_RISK = {"columns": ["clinic.age", "shop.visits"]}
OF_PAIR = {"down": "clinic.risk", "across": "bank.owns"}
EVERY = {
    **{one: {"columns": THREE} for one in ("means", "covariance", "correlation", "partial-correlation", "inflation")},
    **dict.fromkeys(("regress", "ridge", "stepwise"), OTHERS),
    **{one: {**OTHERS, "normal": True} for one in ("poisson", "negative-binomial", "gamma")},
    **{one: {"label": "clinic.risk", "normal": True, **OF_RISK} for one in ("multinomial", "ordinal")},
    "logistic": {"label": "bank.owns", "columns": [*THREE[1:], "clinic.risk"], "normal": True},
    "anova": {"value": "bank.income", "columns": ["clinic.risk", "bank.owns"]},
    "contrasts": {"value": "bank.income", "by": "clinic.risk", "columns": ["clinic.age"]},
    "discriminant": {"by": "clinic.risk", **OF_RISK},
    "components": {"columns": THREE, "k": 3},
    "factors": {"columns": THREE},
    "canonical-correlation": {"columns": ["bank.income", "bank.owns"], "others": ["clinic.age", "clinic.risk"]},
    **dict.fromkeys(("crosstab", "odds-ratios"), OF_PAIR),
    "group-means": {"value": "bank.income", "by": "clinic.risk"},
    "synthetic": {"rows": 20},
}
TERMS = {"label": "bank.income", "columns": ["clinic.risk=high + clinic.risk=low", "bank.owns"]}


def changed(tables, **columns):
    """The tables with other values of some columns, called `party_column`."""
    found = dict(tables)
    for name, values in columns.items():
        party, _, column = name.partition("_")
        places = [at for at, one in enumerate(found[party].schema.columns) if one.source == column]
        rows = found[party].values.copy()
        rows[:, places] = np.asarray(values, dtype=float).reshape(len(rows), -1)
        found[party] = replace(found[party], values=rows)
    return found


def one_hot(codes, n=3):
    return np.eye(n)[codes]


def hard_tables():
    """Tables by what is hard about them."""
    tables, few = tables_of(300), tables_of(4)
    age, none = tables["clinic"].values[:, 0], np.zeros(300)
    return {
        "singular columns": changed(tables, shop_visits=(age - 50) / 20),
        "constant columns": changed(tables, shop_visits=none + 1, bank_income=none + 20),
        "more columns than rows": few,
        "perfect separation": changed(tables, bank_owns=age > 50, clinic_risk=one_hot(np.digitize(age, [45, 55]))),
        "classes without rows": changed(tables, clinic_risk=one_hot(np.zeros(300, int)), bank_owns=none),
        "nothing hard": tables,
        "nothing but bounds": changed(tables, bank_income=none, shop_visits=none + 4, clinic_age=none + 100),
    }


@cache
def hard_releases():
    """Releases of these with hardly any noise, with much, and with so much that there is nothing else."""
    rng, found = np.random.default_rng(5), []
    for what, tables in hard_tables().items():
        for epsilon in (1e6, 8.0, *([0.02] if what == "nothing hard" else [])):
            plan = plan_of(tables, epsilon)
            found.append((f"{what}, epsilon {epsilon:g}", released(tables, plan, rng)))
    tables = tables_of(300)
    whole = released(tables, plan_of(tables, 8.0), rng)
    for name in ("bank.income", "clinic.risk=high"):
        matrix, at = whole.matrix.copy(), whole.names.index(name)
        matrix[at, at] = -3 * whole.deviation
        found.append((f"negative square of {name}", replace(whole, matrix=matrix)))
    return found


def check_shown(answer, what):
    """Refuse NaN and infinity in all that shows an answer."""
    json.dumps(answer.to_dict(), allow_nan=False)
    shown = ReleaseAnswer(answer, "what was asked", ["what it cost"])
    for text in (repr(shown), re.sub("<[^>]*>", " ", shown._repr_html_())):
        assert not re.search(r"\b(nan|inf|-inf|infinity)\b", text, re.IGNORECASE), (what, text)
    for frame in (shown.to_polars().to_dict(as_series=False), answer.table):
        assert all(one is None or not isinstance(one, float) or math.isfinite(one) for c in frame.values() for one in c)


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_answer_shows_what_is_no_number_whatever_was_in_the_tables(name, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_STEPS", 5)
    n_answers = 0
    for what, release in hard_releases():
        for given in (EVERY[name], TERMS) if name == "regress" else (EVERY[name],):
            with warnings.catch_warnings(action="error"):
                try:
                    answer = ask(release, name, **given)
                except AnswerError:
                    continue
            check_shown(answer, what)
            n_answers += 1
    assert n_answers


ASKED_OF_COUNTS = {
    "survival": {"time": "clinic.course", "by": "bank.owns"},
    "hazard-ratios": {"time": "clinic.course", "by": "bank.owns"},
    "groups": {"columns": ["bank.owns"], "at_least": 5},
    "group-means": {"value": "clinic.course", "columns": ["bank.owns"]},
    "quantiles": {"value": "clinic.course", "columns": ["bank.owns"]},
    "distribution": {"powers": [0.5, 2.0], "quantiles": [0.1, 0.9]},
}


def counts_of(counts, error, *, whole):
    counts = np.array(counts, dtype=float)
    counts = counts if whole else counts.sum(axis=0)
    names = ["bank.owns", "clinic.course"] if whole else ["clinic.course"]
    ends = {"bank.owns": [0, 1], "clinic.course": [0, counts.shape[-1] - 1]}
    return {
        "method": "mpc",
        "columns": names,
        "categories": {name: ends[name] for name in names},
        "labels": {},
        "counts": counts.tolist(),
        "standard_errors": np.full(counts.shape, error).tolist(),
    }


HARD_COUNTS = {
    "no rows": ([[0, 0, 0, 0], [0, 0, 0, 0]], 0.0),
    "a group without rows": ([[10, 5, 8, 2], [0, 0, 0, 0]], 1.0),
    "all events at once": ([[0, 50, 0, 0], [0, 50, 0, 0]], 0.0),
    "no events": ([[9, 0, 7, 0], [5, 0, 8, 0]], 0.0),
    "perfect separation": ([[0, 40, 0, 0], [0, 0, 40, 0]], 0.5),
    "negative counts": ([[-9, 3, -2, 1], [2, -8, 3, -1]], 4.0),
    "noise alone": ([[800, -900, 700, 10], [-500, 20, 600, -700]], 500.0),
    "one row": ([[0, 1, 0, 0], [0, 0, 0, 0]], 0.0),
}


@pytest.mark.parametrize("what", HARD_COUNTS)
@pytest.mark.parametrize("name", OF_COUNTS)
def test_no_answer_of_counts_shows_what_is_no_number(name, what):
    fields = counts_of(*HARD_COUNTS[what], whole=name != "distribution")
    with warnings.catch_warnings(action="error"):
        try:
            answer = ask_counts(fields, name, ASKED_OF_COUNTS[name])
        except AnswerError:
            return
    check_shown(answer, what)
