"""The figures about principal components: what is measured of a small table, their verdicts, and their page."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench.pca_figures import __main__ as program
from bench.pca_figures.measured import ALMOST_HALF, CENTRAL, EXACT, LOCAL, ONE, Point, figure_1, ours, parties
from bench.pca_figures.page import page, verdicts
from bench.pca_figures.sources import SOURCES, persons, split

CENSUS = "census, made up"


def small():
    """Two blocks of rows near a plane through the origin, of the same table."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 1, (2000, 2)) @ rng.dirichlet(np.ones(12), 2) * 2
    return replace(
        SOURCES[CENSUS],
        blocks=lambda: (split(part.clip(0, 1), 2000) for part in np.split(rows, 2)),
        row_norm=12**0.5,
        gammas=(2**6, 2**12),
        epsilons=(4.0,),
        components=(1, 2),
        n_runs=2,
        n_local_runs=1,
    )


def test_what_is_captured_lies_below_what_is_possible_and_central_privacy_is_near_it():
    few, more = figure_1(CENSUS, small())
    for point in (few, more):
        assert point.numbers[EXACT] >= max(value for way, value in point.numbers.items() if way != EXACT)
        assert point.numbers[LOCAL] < 0.95 * point.numbers[CENTRAL]
        assert point.numbers[ours(2**12)] == pytest.approx(point.numbers[CENTRAL], abs=0.02)
        assert 0 < point.loss_to_bound < 1
    assert few.numbers[EXACT] < more.numbers[EXACT] == pytest.approx(1)


def test_made_up_persons_choose_one_answer_to_each_question_whatever_the_blocks(monkeypatch):
    (tables,) = persons(50)
    joint = np.hstack([table.values for table in tables])
    assert joint.shape == (50, 816)
    assert (joint.reshape(50, 34, 24).sum(axis=-1) == 1).all()
    monkeypatch.setattr("bench.pca_figures.sources.ROWS_PER_BLOCK", 20)
    assert [len(one[0].values) for one in persons(50)] == [20, 20, 10]
    assert {table.schema.rows for one in persons(50) for table in one} == {(1, 50)}


def test_more_parties_mean_less_epsilon_against_one_that_colludes_and_not_against_nearly_half():
    found = {point.figure: list(point.numbers.values()) for point in parties((1.0,))}
    assert found[ONE] == sorted(found[ONE], reverse=True)
    assert found[ALMOST_HALF] == sorted(found[ALMOST_HALF])


def test_a_claim_that_one_setting_refutes_does_not_hold():
    ways = {EXACT: 0.9, CENTRAL: 0.8, LOCAL: 0.1, **{ours(gamma): 0.8 for gamma in (2**4, 2**6, 2**12)}}
    good = Point("1", "KDD Cup 99", 1.0, 5, ways, 0.5)
    bad = replace(good, numbers=ways | {ours(2**12): 0.05}, loss_to_bound=1.5)
    held = {v.claim: v.holds for v in verdicts([good])}
    failed = {v.claim: v.holds for v in verdicts([good, bad])}
    for claim in ("Figure 1: it always", "Lemma 3", "Ours: no less"):
        (name,) = [one for one in held if one.startswith(claim)]
        assert (held[name], failed[name]) == (True, False)
    assert all(v.holds is None for v in verdicts([]))


def test_the_page_is_what_the_kept_numbers_say():
    kept = json.loads(program.KEPT.read_text())
    assert set(kept) == set(program.PARTS)
    ordered = {name: kept[name] for name in program.PARTS if name in kept}
    assert (program.DOCS / "analyses" / "pca-figures.md").read_text() == page(ordered)
