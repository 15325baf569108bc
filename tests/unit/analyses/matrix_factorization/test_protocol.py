"""The job in one process: rounds over sessions, what they release, who drops out, what stays at a party."""

import numpy as np
import pytest
from rating_jobs import (
    BOUNDS,
    PARTIES,
    SGD,
    SGD_VERTICAL_PARTY,
    VERTICAL,
    horizontal_tables,
    job_of,
    rows_of,
    table_of,
    vertical_tables,
)

from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.horizontal import Estimates, run
from analyses.matrix_factorization.in_process import LocalMembers
from analyses.matrix_factorization.jobs.forecast import OFFSETS_ALONE
from analyses.matrix_factorization.own_ratings import REPEATED, UNKNOWN_ITEM, UNKNOWN_USER
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.reference import ratings_in, reference
from analyses.matrix_factorization.serving.kept import recommended
from analyses.run_locally import local_network, run_plan
from entropy import InsecureTestEntropy
from results.registry import lines_of


def planned(job, tables):
    return protocol.plan(job, [tables[name].schema for name in job.members])


async def run_job(job, tables, **options):
    plan = planned(job, tables)
    network = local_network(plan, entropy_of=lambda member: InsecureTestEntropy(f"member {member}"), **options)
    return await run_plan(plan, tables, network, analysis=protocol.ANALYSIS)


@pytest.mark.parametrize(
    ("parameters", "tables"), [({"rank": 2, "rounds": 2}, horizontal_tables()), (VERTICAL, vertical_tables())]
)
async def test_with_next_to_no_noise_a_job_finds_what_exact_sums_lead_to(parameters, tables):
    job = job_of(privacy={"epsilon": 1e6, "delta": 1e-4}, parameters=parameters)
    ended = await run_job(job, tables)
    exact = reference([tables[name] for name in PARTIES], ended.plan)
    result = ended.result
    off = np.array(result["offsets"]) - exact.offsets_q
    assert np.abs(off).max() < 0.05 * result["units"]
    assert np.array(result["vectors"]).shape == exact.vectors_q.shape
    assert len(result["rounds"]) == len(result["rounds_paid"]) == ended.plan.n_sums
    assert [one["survivors"] for one in result["rounds"]] == [list(PARTIES)] * ended.plan.n_sums


@pytest.mark.parametrize(
    ("parameters", "tables"),
    [
        ({"rank": 0}, horizontal_tables()),
        ({"rank": "auto"}, horizontal_tables()),
        ({"rank": 2, "rounds": 1}, horizontal_tables()),
        (VERTICAL, vertical_tables()),
        ({"setting": "vertical", "rank": 0, "rounds": 1}, vertical_tables()),
    ],
)
async def test_equal_entropy_gives_equal_results_in_every_setting(parameters, tables):
    first, again = [await run_job(job_of(parameters=parameters), tables) for _ in range(2)]
    assert first.result == again.result
    assert first.plan.digest() == again.plan.digest()
    assert {name: report.n_rows for name, report in first.reports.items()} == {
        name: table.n_rows for name, table in tables.items()
    }
    lines = lines_of("matrix-factorization", first.result)
    assert "matrix factorization" in "\n".join(lines)
    assert (OFFSETS_ALONE in lines) == (first.result["rank"] == 0)


@pytest.mark.parametrize(
    ("parameters", "make"),
    [
        ({"rank": 1, "rounds": 1}, horizontal_tables),
        (VERTICAL, vertical_tables),
        (SGD, horizontal_tables),
        (SGD_VERTICAL_PARTY, vertical_tables),
    ],
)
async def test_two_owners_factor_in_every_setting(parameters, make):
    two = PARTIES[:2]
    ended = await run_job(job_of(two, parameters=parameters), make(two))
    assert [one["survivors"] for one in ended.result["rounds"]] == [list(two)] * ended.plan.n_sums
    assert all(report.kept for report in ended.reports.values())


async def test_the_sum_of_round_0_has_the_distribution_of_the_simulation_with_the_same_noise():
    """The estimates are those of `horizontal.run` on the same sums."""
    tables = horizontal_tables()
    ended = await run_job(job_of(parameters={"rank": 0}), tables)
    held = [ratings_in(ended.plan, tables[name]) for name in PARTIES]
    members = LocalMembers(ended.plan.factors, held, Prior(), InsecureTestEntropy("members"))
    found = run(ended.plan.factors, Estimates(Prior()), members).model.offsets
    deviation = ended.plan.factors.deviation(0)
    assert np.abs(found - np.array(ended.result["offsets"]) / ended.result["units"]).max() < 12 * deviation


async def test_a_result_says_how_far_noise_moves_offsets_and_at_a_tiny_epsilon_that_they_are_none_of_the_ratings():
    tables, said = horizontal_tables(), []
    for epsilon in (1e4, 0.01):
        job = job_of(parameters={"rank": 0}, privacy={"epsilon": epsilon, "delta": 1e-4}, anyway=True)
        result = (await run_job(job, tables)).result
        said.append(result["about_offsets"])
        assert said[-1] in lines_of("matrix-factorization", result)
    assert said[0].startswith("Noise moves the offset of an item that is rated as often as the others by 0.00")
    assert said[1].endswith("its offset is more prior than rating.")
    result = (await run_job(job_of(parameters={"setting": "vertical", "rank": 0}), vertical_tables())).result
    assert result["about_offsets"].startswith("Noise moves the offset of a user who rates as much as the others by 0.")


async def test_what_is_kept_stays_at_the_party_and_gives_recommendations():
    for tables, parameters in ((horizontal_tables(), {"rank": 2, "rounds": 1}), (vertical_tables(), VERTICAL)):
        ended = await run_job(job_of(parameters=parameters), tables)
        own = protocol.read_table(ended.plan, tables["bank"])
        kept = ended.reports["bank"].kept
        found = recommended(kept, own, own.user_names[3], top=5, prior=Prior())
        rated = set(own.ratings.columns[own.ratings.starts[3] : own.ratings.starts[4]].tolist())
        assert {one.item for one in found} & rated == set()
        assert [one.rating for one in found] == sorted((one.rating for one in found), reverse=True)
        assert all(BOUNDS[0] <= one.rating <= BOUNDS[1] for one in found)
        assert "offsets" not in repr(ended.reports["bank"])
        assert kept["told"].startswith(f"own model kept for recommendations: {kept['whose']}, rank ")
        assert set(kept["errors"]) == {"joint", "alone"}
        assert len(recommended(kept, own, "nobody", top=3, prior=Prior())) == 3


async def test_values_that_do_not_fit_are_mapped_and_counted_for_the_owner_alone():
    tables = horizontal_tables()
    rows = tables["bank"].ratings
    users = [rows.user_names[place] for place in rows.users]
    spoilt = rows_of(
        [*users, users[0], users[0], "cold"],
        [*rows.items, rows.items[0], -1, -1],
        [*np.where(np.arange(len(rows.values)) == 5, 99.0, rows.values), 2.0, 1.0, 1.0],
    )
    clipped = rows_of(users, rows.items, np.where(np.arange(len(rows.values)) == 5, BOUNDS[1], rows.values))
    job = job_of(parameters={"rank": 2, "rounds": 1})
    first = await run_job(job, tables | {"bank": table_of("bank", spoilt)})
    second = await run_job(job, tables | {"bank": table_of("bank", clipped)})
    assert first.result == second.result
    report = first.reports["bank"]
    assert report.clipped_values["rating"] >= 1
    assert report.mapped_values == {UNKNOWN_ITEM: 2, UNKNOWN_USER: 0, REPEATED: 1}
    assert report.n_rows == len(rows.values) + 3


async def test_users_of_other_names_are_dropped_in_the_vertical_setting():
    tables = vertical_tables()
    rows = tables["bank"].ratings
    users = [rows.user_names[place] for place in rows.users]
    more = rows_of([*users, "ann", 90, -1], [*rows.items, 0, 0, 0], [*rows.values, 1.0, 1.0, 1.0])
    spoilt = tables | {"bank": table_of("bank", more, n_items=4, users=90)}
    first, second = (
        await run_job(job_of(parameters=VERTICAL), spoilt),
        await run_job(job_of(parameters=VERTICAL), tables),
    )
    assert first.result == second.result
    assert first.reports["bank"].mapped_values[UNKNOWN_USER] == 3


async def test_a_party_with_more_users_than_it_declares_is_clipped_and_fails_nothing():
    tables = horizontal_tables()
    tables["bank"] = table_of("bank", tables["bank"].ratings, users=1, per_user=100)
    ended = await run_job(job_of(parameters={"rank": 0}), tables)
    assert len(ended.result["offsets"]) == 12
