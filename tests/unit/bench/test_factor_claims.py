"""Verdicts on the figures of matrix factorization, and what its measurements at equal cost rest on."""

from dataclasses import replace

import numpy as np
import pytest

from bench.analyses.matrix_factorization import at_size, figures, printed, rivals, tables, verdicts, whole_jobs
from bench.analyses.table import Row
from bench.utility import descents, factor_jobs, factor_peers, factor_speed
from bench.utility.descents import Positive, tuned


def row(figure, what, private, epsilon=8.0, **others):
    return Row(figures.analysis(figure), f"data: {what}", epsilon, figures.METRIC, private=private, others=others)


def verdict(rows, text):
    (found,) = [v for v in verdicts(rows) if text in v.claim]
    return found


def test_a_claim_about_a_figure_is_judged_by_that_figures_rows():
    clipped = {figures.CLIP: 0.9}
    assert verdict(
        [row(4, "unit rating, s = 1", 0.8, **clipped)],
        "figure 4: clipped embeddings err less than clipped gradients, unit rating",
    ).holds
    worse = [row(4, "unit rating, s = 1", 1.0, **clipped), row(9, "unit rating, s = 1", 0.1, **clipped)]
    found = verdict(worse, "figure 4: clipped embeddings err less than clipped gradients, unit rating")
    assert found.holds is False
    assert "1 to 0.9" in found.numbers
    assert verdict(worse, "figure 4: clipped embeddings err less than clipped gradients, unit user").holds is None


def test_rounds_are_compared_with_fewer_and_with_more_of_them():
    def of(errors):
        return [
            row(6, f"unit rating, s = 10, random, T = {t}, T' = {local}", error)
            for (t, local), error in zip(figures.ROUNDS, errors, strict=True)
        ]

    assert verdict(of((1.0, 0.9, 1.1)), "several local steps").holds
    assert not verdict(of((0.8, 0.9, 1.1)), "several local steps").holds
    assert not verdict(of((1.0, 0.9, 0.8)), "several local steps").holds


def test_more_devices_that_drop_out_are_compared_at_one_epsilon():
    rows = [
        row(10, f"unit user, {dropped}, omega 0.3", error, epsilon, **{figures.GD_DR: 1.0, figures.STAGE_1: 1.1})
        for epsilon, errors in ((8.0, (0.9, 0.95)), (2.0, (1.2, 1.3)))
        for dropped, error in zip(("0% drop out", "20% drop out"), errors, strict=True)
    ]
    assert verdict(rows, "a little more error").holds
    assert "2 of 4" in verdict(rows, "figure 10: less error than GD-DR").numbers
    assert not verdict(rows, "stage 1 alone").holds


def test_the_prototypes_figures_are_reached_within_a_percent_or_it_is_said():
    def of(mse):
        return Row(tables.ANALYSIS, "data: offsets", 8.0, tables.METRIC, mpc=mse, others={tables.PROTOTYPE: 1.0})

    assert verdict([of(1.009)], "prototype's figures").holds
    assert not verdict([of(1.011)], "prototype's figures").holds


def test_a_size_of_steps_is_chosen_on_the_first_seed_and_medians_are_over_all():
    def run(data, size):
        return {"mse": data * (1 if size == descents.SIZES[1] else 2)}

    assert tuned(run, [1.0, 5.0, 3.0]) == {"mse": 3.0}


def test_claims_in_the_printed_setting_are_judged_by_rows_of_that_setting_and_noise_apart_from_none():
    def printed_row(figure, what, private, epsilon=8.0, **others):
        return replace(row(0, what, private, epsilon, **others), analysis=printed.analysis(figure))

    clipped = {figures.CLIP: 1.0, printed.UNCLIPPED: 0.9}
    rows = [
        printed_row("4", "unit rating, s = 1", private, epsilon, **clipped)
        for private, epsilon in ((0.8, None), (1.1, 8.0))
    ]
    head = "figure 4 in its own setting, MovieLens 100K: "
    assert verdict(rows, f"{head}without noise").holds
    found = verdict(rows, f"{head}clipped embeddings err less than clipped gradients, unit rating")
    assert found.holds is False
    assert found.numbers.startswith("0 of 1 settings")
    often = [
        printed_row("6", f"unit rating, s = 18, random, T = {t}, T' = {local}", private)
        for (t, local), private in zip(printed.FREQUENCIES, (1.2, 1.0, 1.25, 1.3), strict=True)
    ]
    found = verdict(often, "T' of 10 and of 50 err less than 1 and 1000, unit rating")
    assert (found.holds, found.numbers[:17]) == (False, "3 of 4 settings; ")
    rows = [printed_row("9, alone", f"s = {n}", None, None, **{printed.LOCAL: 1.0}) for n in (10, 40)]
    ours = row(9, "unit user, s = 40", 1.01, **{figures.ALONE: 0.9, figures.RELEASED: 1.0})
    than_alone = "less error than parties alone by the paper's descent, without noise"
    assert verdict(rows[:1], f"{than_alone}, within 2 %").holds is None
    assert verdict([*rows, ours], f"{than_alone}, within 2 %").holds
    (strict,) = [v for v in verdicts([*rows, ours]) if v.claim.endswith(than_alone)]
    assert (strict.holds, strict.numbers[:17]) == (False, "0 of 1 settings; ")


def test_a_split_by_category_is_compared_with_one_at_random_and_more_owners_with_fewer():
    def printed_row(figure, what, private, alone):
        found = row(0, what, private, **{figures.LOCAL_ONLY: alone})
        return replace(found, analysis=printed.analysis(figure))

    rows = [
        printed_row("6", "unit rating, s = 18, random, T = 100, T' = 10", 1.0, 1.2),
        printed_row("6, by category", "unit rating, s = 18, by category, T = 100, T' = 10", 1.06, 1.2),
        *(printed_row("7", f"unit rating, s = {n}", error, 1.05) for n, error in ((2, 1.1), (5, 1.0), (10, 1.01))),
    ]
    found = verdict(rows, "18 owners err alike with items by category and at random (within 5 %), unit rating")
    assert (found.holds, found.numbers) == (False, "0 of 1 settings; the larger to the smaller: 1.06 to 1")
    found = verdict(rows, "the more owners the less error, unit rating")
    assert (found.holds, found.numbers[:17]) == (False, "1 of 2 settings; ")
    assert (
        "4 of 5 settings"
        in verdict(rows, "100K: together owners err less than each alone with privacy, unit rating").numbers
    )
    worse = [replace(one, private=one.private + 1, others={figures.LOCAL_ONLY: 3.0}) for one in rows]
    assert verdict(worse, "the more owners the less error, unit rating").text.startswith("no verdict: not decidable")


def test_settings_in_which_both_err_more_than_one_constant_are_counted_apart_and_decide_nothing():
    def rows(*pairs):
        return [
            replace(
                row(0, f"unit rating, s = {n}", ours, **{figures.LOCAL_ONLY: alone}), analysis=printed.analysis("7")
            )
            for n, (ours, alone) in zip((2, 5, 10), pairs, strict=True)
        ]

    claim = "100K: together owners err less than each alone with privacy, unit rating"
    found = verdict(rows((1.2, 1.4), (1.3, 1.5), (1.5, 1.4)), claim)
    assert found.holds
    assert found.numbers.startswith("1 of 1 settings; ")
    assert found.numbers.endswith("; in 2 more both err more than one public constant")
    assert verdict(rows((1.25, 1.2), (1.3, 1.5), (1.3, 1.5)), claim).holds is False


def test_whoever_joins_by_default_may_err_a_five_hundredth_more_than_alone_and_no_more():
    def of(joined):
        return Row(
            whole_jobs.ANALYSIS, "data: horizontal, s = 2", 2.0, tables.METRIC, mpc=joined, others={"alone": 0.9}
        )

    assert verdict([of(0.9), of(0.9019)], "by default what parties keep").holds
    assert verdict([of(0.9), of(0.9021)], "by default what parties keep").holds is False
    assert verdict([], "by default what parties keep").holds is None


def test_a_whole_job_is_measured_for_each_setting_beside_parties_alone():
    found = list(whole_jobs.of_one_set("insteval", quick=True))
    assert [one.dataset for one in found] == ["insteval: horizontal, s = 2", "insteval: vertical, s = 2"]
    for one in found:
        assert one.mpc <= one.others[whole_jobs.ALONE] + whole_jobs.MARGIN


def test_with_made_up_ratings_a_constant_of_theirs_decides_whether_there_is_a_verdict():
    def found(ours, constant):
        others = {figures.CLIP: 1.1, at_size.ONE_CONSTANT: constant}
        return verdict([replace(row(0, "unit rating, s = 1", ours, **others), analysis=at_size.ANALYSIS)], "made-up")

    assert found(1.0, 1.05).holds
    assert found(1.2, 1.05).text.startswith("no verdict: not decidable on this data")
    assert found(1.2, 1.15).text == "**does not hold**"


def test_sizes_of_steps_are_climbed_in_both_directions_until_both_neighbours_are_worse():
    for best in (printed.LADDER**-3, 1.0, printed.LADDER**2):
        found = printed._best(lambda data, size, best=best: {"mse": abs(np.log(size / best)), "at": size}, None, 1.0)
        assert found["at"] == pytest.approx(best)


def test_multipliers_are_those_of_the_full_cost():
    """Five releases without sampling: 1.34 at epsilon 8, delta 1e-5."""
    assert rivals._multiplier(8.0, 5, 1.0) == pytest.approx(1.342, abs=0.002)


def small(seed=0) -> Positive:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((40, 12)) < 0.5)
    values = rng.integers(1, 6, len(users)).astype(float)
    train = descents.Ratings.of(users, items, values, 40, 12)
    return Positive("insteval", train, (users[:50], items[:50], values[:50]), (1.0, 5.0), seed)


def test_owners_alone_and_together_are_measured_on_all_items():
    data, owner_of = small(), np.arange(12) % 3
    shape = descents.Shape(4, 5, 0.3, final_steps=1, is_of_a_job=True, rounds_normals=True)
    steps = {"epsilon": None, "owner_of": owner_of, "steps": (2, 2), "shape": shape}
    for together in (True, False):
        found = descents.vertical(data, 1.0, together=together, **steps)
        assert 0 < found["mse"] < 5
    assert 0 < rivals.alone(data, by_items=owner_of) < 5
    found = rivals.local_descent(data, 1.0, n_parties=2, n_steps=20, shape=shape)
    assert 0 < found["best"] <= found["mse"] < 5


def test_devices_that_drop_out_add_nothing_and_the_noise_stays():
    data = small()
    options = {"epsilon": None, "n_parties": 40, "setting": "local", "steps": (3, 1)}
    assert descents.horizontal(data, 1.0, dropped=0.2, **options) != descents.horizontal(data, 1.0, **options)


def test_a_whole_factorization_of_few_ratings_is_timed_and_its_bytes_are_those_of_the_plan():
    tables_of_parties = factor_speed.tables_of(600, 60, 50)
    found = factor_speed.job(tables_of_parties, factor_speed.SCHEDULES["offsets"])
    (vector,) = found["masked_vector_bytes"]
    assert 2 * 50 * 2 < vector < found["sent_bytes_of_a_party"] < vector + 5000
    assert found["rounds"] == 1


def test_settings_are_chosen_without_the_test_part():
    data = factor_peers.load("insteval", 0)
    parts = factor_peers.parts_of(data, 0)
    assert len(parts["fit"][0]) + len(parts["check"][0]) == data.train.n_ratings
    assert len(parts["test"][0]) == len(data.test[0])
    known = {(u, i) for u, i in zip(parts["fit"][0].tolist(), parts["fit"][1].tolist(), strict=True)}
    assert known.isdisjoint(zip(parts["check"][0].tolist(), parts["check"][1].tolist(), strict=True))


@pytest.mark.parametrize("way", ["horizontal, statistics", pytest.param("vertical, sgd, once", marks=pytest.mark.slow)])
def test_a_job_of_either_form_is_measured_on_what_was_left_out(way):
    few = {"steps": 2, "final_steps": 1} if "sgd" in way else {}
    found = factor_jobs.run("insteval", {**factor_jobs.WAYS[way], **few}, 8.0, 0)
    assert 1.4 < found["mse"] < 2.6
    assert 1.4 < found["alone"] < 1.5
    if "statistics" in way:
        assert found["mse"] < found["alone"] + 0.002
    assert found["bytes"] > 1000
