"""The form `sgd` as a job in one process: three stages over sessions, losses, lies, what stays at a party."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from factor_runs import STAGES, Lost, Retold, one_more, planned, run_past_the_gate, run_with, through_the_gate
from rating_jobs import (
    BOUNDS,
    PARTIES,
    SGD,
    SGD_PARTY,
    SGD_VERTICAL,
    SGD_VERTICAL_PARTY,
    SGD_WAYS,
    horizontal_tables,
    job_of,
    rows_of,
    table_of,
    vertical_tables,
)

from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.broadcast import RELEASED_STAGE, ModelFormat
from analyses.matrix_factorization.descent.descent_parts import DescentPart, first_points, member_of
from analyses.matrix_factorization.descent.projection import project
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.own_ratings import REPEATED, UNKNOWN_ITEM, UNKNOWN_USER
from analyses.matrix_factorization.posterior import Prior
from analyses.matrix_factorization.reference import ratings_in, reference
from analyses.matrix_factorization.serving.kept import UnknownUserError, recommended
from analyses.run_locally import local_network, run_plan
from dp.cost.views import VIEWS
from entropy import InsecureTestEntropy
from mpc.errors import LocalFaultError, PeerViolationError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.series import Announcement
from mpc.secagg.stage import Stage
from results.registry import lines_of


async def run_job(parameters, tables, **changes):
    job = job_of(parameters=parameters, **changes)
    plan = protocol.plan(job, [tables[name].schema for name in PARTIES])
    network = local_network(plan, entropy_of=lambda member: InsecureTestEntropy(f"member {member}"))
    return await run_plan(plan, tables, network, analysis=protocol.ANALYSIS)


def tables_of(parameters):
    return vertical_tables() if "setting" in parameters else horizontal_tables()


# -- what it comes to ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", SGD_WAYS)
async def test_with_next_to_no_noise_a_job_finds_what_exact_steps_lead_to(way):
    parameters = {**SGD_WAYS[way], "sampling_rate": 1.0, "learning_rate": 5.0}
    tables = tables_of(parameters)
    ended = await run_job(parameters, tables, privacy={"epsilon": 1e7, "delta": 1e-4})
    exact = reference([tables[name] for name in PARTIES], ended.plan)
    result = ended.result
    assert np.abs(np.array(result["vectors"]) - exact.vectors_q).max() < 0.02 * result["units"]
    first = first_points(ended.plan)
    assert np.abs(exact.vectors_q - first).max() > 0.02 * result["units"]
    assert [one["survivors"] for one in result["rounds"]] == [list(PARTIES)] * 3
    assert result["rounds_paid"] == result["rounds_opened"] == [0, 1, 2]


@pytest.mark.parametrize("way", SGD_WAYS)
async def test_equal_entropy_gives_equal_results_and_every_vector_is_in_the_set(way):
    parameters = SGD_WAYS[way]
    first, again = [await run_job(parameters, tables_of(parameters)) for _ in range(2)]
    assert first.result == again.result
    vectors = np.array(first.result["vectors"])
    assert (vectors >= 0).all()
    assert (vectors**2).sum(axis=1).max() <= 6 * first.result["units"] ** 2
    assert first.result["offsets"] == [0] * len(vectors)
    assert "form sgd" in "\n".join(lines_of("matrix-factorization", first.result))
    assert [first.reports[name].kept for name in PARTIES] == [again.reports[name].kept for name in PARTIES]


@pytest.mark.parametrize("way", SGD_WAYS)
async def test_what_is_kept_stays_at_the_party_and_gives_recommendations(way):
    parameters = SGD_WAYS[way]
    tables = tables_of(parameters)
    ended = await run_job(parameters, tables)
    own = protocol.read_table(ended.plan, tables["bank"])
    kept = ended.reports["bank"].kept
    found = recommended(kept, own, own.user_names[3], top=5, prior=Prior())
    rated = set(own.ratings.columns[own.ratings.starts[3] : own.ratings.starts[4]].tolist())
    assert {one.item for one in found} & rated == set()
    assert [one.rating for one in found] == sorted((one.rating for one in found), reverse=True)
    assert all(BOUNDS[0] <= one.rating <= BOUNDS[1] for one in found)
    with pytest.raises(UnknownUserError):
        recommended(kept, own, "nobody", top=5, prior=Prior())
    assert "vectors" not in repr(ended.reports["bank"])


async def test_a_user_is_solved_from_its_own_ratings_and_its_predictions_are_products_above_the_lower_bound():
    tables = horizontal_tables()
    ended = await run_job({**SGD, "rank": 1}, tables)
    own = protocol.read_table(ended.plan, tables["bank"])
    kept = {**ended.reports["bank"].kept, "vectors": [[2.0]] * 12}
    place = 3
    of_user = own.ratings.deviations[own.ratings.starts[place] : own.ratings.starts[place + 1]]
    (best, *_) = recommended(kept, own, own.user_names[place], top=5, prior=Prior())
    # 2 u is fitted to the user's ratings less the lower bound, u ** 2 at most R = 6.
    assert best.rating == pytest.approx(BOUNDS[0] + min(of_user.mean(), 2 * 6**0.5), abs=0.05)


async def test_final_steps_move_items_of_their_owner_alone_and_by_whole_steps():
    tables = vertical_tables()
    changes = {"learning_rate": 5.0, "sampling_rate": 1.0}
    without, with_five = [
        await run_job(
            {**SGD_VERTICAL_PARTY, **changes, "final_steps": n}, tables, privacy={"epsilon": 1e7, "delta": 1e-4}
        )
        for n in (0, 5)
    ]
    items = [np.array(ended.reports["bank"].kept["items"])[:, 1:] for ended in (without, with_five)]
    assert np.abs(items[1] - items[0]).max() > 0.02
    users = [np.array(ended.reports["bank"].kept["users"])[:, 1:] for ended in (without, with_five)]
    assert (users[1] == np.array(with_five.result["vectors"]) / 4096).all()
    assert np.abs(users[1] - users[0]).max() < 0.02


# -- values that do not fit ----------------------------------------------------------------------------------------


async def test_values_that_do_not_fit_are_mapped_and_counted_for_the_owner_alone():
    tables = horizontal_tables()
    rows = tables["bank"].ratings
    users = [rows.user_names[place] for place in rows.users]
    spoilt = rows_of(
        [*users, users[0], users[0], "cold"],
        [*rows.items, rows.items[0], -1, -1],
        [*np.where(np.arange(len(rows.values)) == 5, 99.0, rows.values), 2.0, 1.0, 1.0],
    )
    # A user of unknown items alone throws a coin, as everybody does, and adds nothing.
    clipped = rows_of(
        [*users, "cold"], [*rows.items, -1], [*np.where(np.arange(len(rows.values)) == 5, BOUNDS[1], rows.values), 1.0]
    )
    first = await run_job(SGD, tables | {"bank": table_of("bank", spoilt)})
    second = await run_job(SGD, tables | {"bank": table_of("bank", clipped)})
    assert first.result == second.result
    assert first.reports["bank"].mapped_values == {UNKNOWN_ITEM: 2, UNKNOWN_USER: 0, REPEATED: 1}
    assert first.reports["bank"].clipped_values["rating"] >= 1


async def test_a_cold_user_adds_zeros_and_an_item_without_ratings_moves_by_noise_alone():
    tables = horizontal_tables()
    plan = protocol.plan(job_of(parameters={**SGD, "sampling_rate": 1.0}), [tables[n].schema for n in PARTIES])
    only_cold = table_of("bank", rows_of(["cold"], [-1], [1.0]))
    member = member_of(plan, ratings_in(plan, only_cold), InsecureTestEntropy("cold"))
    assert not member.gradient(first_points(plan)).any()
    one = table_of("bank", rows_of(["a"], [7], [3.0]))
    gradient = member_of(plan, ratings_in(plan, one), InsecureTestEntropy("a")).gradient(first_points(plan))
    assert set(np.flatnonzero(gradient.any(axis=1))) <= {7}


async def test_a_party_with_more_users_than_it_declares_is_clipped_and_fails_nothing():
    tables = horizontal_tables()
    tables["bank"] = table_of("bank", tables["bank"].ratings, users=1, per_user=100)
    ended = await run_job(SGD, tables)
    assert len(ended.result["vectors"]) == 12
    plan = ended.plan
    largest = plan.round_sum(0)[0].largest_element
    assert (np.abs(plan.within_range(0, np.array([-(10**12), 10**12]))) == largest).all()


# -- losses and attempts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("parameters", [SGD, SGD_VERTICAL_PARTY], ids=["horizontal, once", "vertical, party"])
def test_one_of_four_may_drop_out_at_every_stage_of_every_round(parameters, stage, number):
    plan, tables = planned(parameters=parameters)
    lost = Lost(4, stage, number)
    ended = run_with(plan, tables, lost)
    assert lost.is_lost
    for t, one in enumerate(ended.result["rounds"]):
        assert set(PARTIES) <= set(one["survivors"])
        assert ("west" in one["survivors"]) == (t < number or (t == number and stage in STAGES[3:]))
    assert len(ended.result["rounds"]) == 3
    assert set(PARTIES) <= set(ended.reports)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("parameters", [SGD_PARTY, SGD_VERTICAL], ids=["horizontal, party", "vertical, once"])
def test_with_too_few_left_the_last_opened_model_is_the_result_and_all_rounds_are_paid(parameters, number):
    plan, tables = planned(PARTIES, parameters)
    result = run_with(plan, tables, Lost(3, Stage.MASK, number)).result
    assert result["rounds_opened"] == list(range(number))
    assert result["rounds_paid"] == [0, 1, 2]
    assert result["privacy"]["views"] == plan.privacy_report()["views"]


class Seat:
    """A session of one party that draws, computes, and nothing else."""

    me, binding, job_id = 1, b"", "job"

    def __init__(self, entropy):
        self.entropy, self.drawn = entropy, []

    async def compute(self, work, *args, **kwargs):
        return work(*args, **kwargs)

    async def draw(self, release, *args):
        self.drawn.append(release)
        return release.draw(self.entropy, *args)


@pytest.mark.parametrize("way", SGD_WAYS)
async def test_a_second_attempt_of_a_round_sends_the_same_vector_under_fresh_noise_of_the_sum(way):
    parameters = {**SGD_WAYS[way], "sampling_rate": 1.0}
    plan, tables = planned(PARTIES, parameters)
    seat = Seat(InsecureTestEntropy("seat"))
    part = DescentPart(seat, plan, protocol.read_table(plan, tables["bank"]))
    seeds = [bytes([i]) * 32 for i in range(len(plan.descent.sum_noise.levels) - 1)]
    (first, noise), (again, other) = [
        await part.contribute(Announcement(0, attempt, b""), seeds) for attempt in range(2)
    ]
    assert (first == again).all()
    assert first.any()
    own = [one for one in seat.drawn if type(one).__name__ == "OwnStepNoise"]
    assert len(own) == len(set(own)) == bool(plan.own_noises) + plan.is_vertical
    if plan.sum_noises:
        assert (noise != other).any()
    else:
        assert noise is None is other


# -- a coordinator that lies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("parameters", [SGD, SGD_VERTICAL], ids=["horizontal", "vertical"])
def test_an_attempt_before_which_one_member_received_another_model_is_not_opened(parameters, number):
    plan, tables = planned(PARTIES, parameters)
    retold = Retold(plan, number, (2,), one_more)
    ended = run_with(plan, tables, retold)
    assert retold.n_told[2] >= number
    assert ended.result["rounds"][number]["attempt"] == 1
    assert f"{Stage.MASK}, round {number}, attempt 0" not in {
        m.stage for m in ended.network.transcript if m.receiver == COORDINATOR
    }


def negative(data):
    return data[:8] + (-1).to_bytes(4, "little", signed=True) + data[12:]


def too_long(data):
    return data[:8] + (3 << 12).to_bytes(4, "little") + data[12:]  # 9, and R is 6


def of_another_round(data):
    return (7).to_bytes(8, "little") + data[8:]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (negative, "negative or too long"),
        (too_long, "negative or too long"),
        (of_another_round, "of another round"),
        (lambda data: data[:-4], "of another shape"),
    ],
)
@pytest.mark.parametrize("parameters", [SGD, SGD_VERTICAL_PARTY], ids=["horizontal", "vertical"])
def test_an_embedding_outside_of_the_set_or_of_another_round_is_refused_by_all(monkeypatch, parameters, change, what):
    """The sensitivity needs all embeddings to be in the set, whatever the coordinator says."""
    plan, tables = planned(PARTIES, parameters)
    write = ModelFormat.write
    monkeypatch.setattr(ModelFormat, "write", lambda how, number, model: change(write(how, number, model)))
    ended = run_with(plan, tables)
    found = [error for error in ended.failures if isinstance(error, PeerViolationError)]
    assert found
    assert all(error.member == COORDINATOR and what in str(error) for error in found)
    to_coordinator = {m.stage for m in ended.network.transcript if m.receiver == COORDINATOR}
    assert f"{Stage.MASK}, round 0, attempt 0" in to_coordinator
    assert not any(f"{Stage.MASK}, round 1" in stage for stage in to_coordinator)


@pytest.mark.parametrize("parameters", [SGD, SGD_VERTICAL], ids=["horizontal", "vertical"])
def test_embeddings_outside_of_the_set_at_the_end_are_refused_too(parameters):
    plan, tables = planned(PARTIES, parameters)
    size = plan.broadcast.n_bytes

    def fault(message):
        if message.stage == RELEASED_STAGE and message.sender == COORDINATOR and message.array.size == size:
            return (message.altered(np.frombuffer(too_long(message.array.tobytes()), dtype=np.uint8)),)
        return (message,)

    ended = run_with(plan, tables, fault)
    assert any("negative or too long" in str(error) for error in ended.failures)
    assert not ended.reports


def test_embeddings_before_there_are_any_are_refused():
    plan, tables = planned(PARTIES, SGD)
    part = DescentPart(Seat(InsecureTestEntropy("seat")), plan, protocol.read_table(plan, tables["bank"]))
    model = FactorModel(np.zeros(12, dtype=np.int64), np.zeros((12, 2), dtype=np.int64), plan.broadcast.units)
    with pytest.raises(PeerViolationError, match="before there are any"):
        part.contribute(Announcement(0, 0, plan.broadcast.write(0, model)), []).send(None)


# -- what is drawn is what is charged ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", SGD_WAYS)
def test_the_gate_of_a_party_lets_all_rounds_pass_after_one_commit(way):
    plan, tables = planned(PARTIES, SGD_WAYS[way])
    commits = []
    ended = run_with(plan, tables, parts=through_the_gate(plan, tables, commits))
    assert ended.result == run_with(plan, tables).result
    assert sorted(commits) == sorted(PARTIES)


@pytest.mark.parametrize(
    ("way", "skipped"),
    [
        ("horizontal, once", ("SumStepNoise", "joint")),
        ("horizontal, party", ("OwnStepNoise", "joint")),
        ("vertical, once", ("OwnStepNoise", "joint")),
        ("vertical, once", ("OwnStepNoise", "final")),
        ("vertical, party", ("OwnStepNoise", "final")),
    ],
)
def test_a_party_that_does_not_draw_some_noise_is_stopped_by_its_gate(way, skipped):
    plan, tables = planned(PARTIES, SGD_WAYS[way])

    def is_skipped(release):
        return (type(release).__name__, getattr(release, "of", "joint")) == skipped

    ended = run_past_the_gate(plan, tables, is_skipped)
    assert isinstance(ended.ends[1], LocalFaultError)
    assert "noise that was not drawn" in str(ended.ends[1])


# -- neighbours through the round of a job -------------------------------------------------------------------------

VALUES = (None, -3.0, 0.4, 3.0)
ROWS = tuple(itertools.product(VALUES, repeat=2))
CORNERS = (6**0.5, 0.0, 1.0)


def plan_of_two_items(parameters):
    declared = {"n_items": 2, "users": 2, "per_user": 2}
    tables = {party: table_of(party, rows_of(["0"], [0], [1.0]), **declared) for party in PARTIES}
    parameters = {**parameters, "rank": 1, "sampling_rate": 1.0, "steps": 2, "theta": 2, "most_participations": 2}
    job = job_of(parameters=parameters, privacy={"epsilon": 4.0, "delta": 1e-3})
    return protocol.plan(job, [tables[name].schema for name in PARTIES]), declared


def contributed(plan, declared, table, points):
    """What the production code of a party makes of a table, of one tuple of values per user, without noise."""
    cells = [(str(i), j, x) for i, row in enumerate(table) for j, x in enumerate(row) if x is not None]
    users, items, values = zip(*cells, strict=True) if cells else ((), (), ())
    own = protocol.read_table(plan, table_of("bank", rows_of(users, items, values), **declared))
    member = member_of(plan, own.ratings, InsecureTestEntropy("coins"))
    if not plan.is_vertical:
        return member.gradient(points).ravel()
    member.items = points[::-1]
    return np.concatenate([part.ravel() for part in member.gradients(points)])


@pytest.mark.parametrize("parameters", [SGD, SGD_VERTICAL], ids=["horizontal", "vertical"])
def test_neighbouring_tables_move_a_round_by_no_more_than_is_paid_for_whatever_was_broadcast(parameters):
    plan, declared = plan_of_two_items({k: v for k, v in parameters.items() if k != "final_steps"})
    moved = plan.descent.own_noise.sensitivities
    units, most = plan.descent.params.factor_units, 0
    for corner in itertools.product(CORNERS, repeat=2):
        points = np.array([[int(c * units)] for c in corner])
        vectors = {row: contributed(plan, declared, (row, (0.4, -3.0)), points) for row in ROWS}
        for row, other in itertools.product(ROWS, repeat=2):
            changed = [a != b for a, b in zip(row, other, strict=True)]
            if plan.is_vertical and sum(changed) != 1:
                continue
            is_added = other == (None, None) or (plan.is_vertical and other[changed.index(True)] is None)
            view = VIEWS[0] if is_added else VIEWS[1]
            difference = vectors[row] - vectors[other]
            most = max(most, int((difference**2).sum()) if is_added else 0)
            assert int((difference**2).sum()) <= moved[view].squared_l2
            assert int(np.abs(difference).sum()) <= moved[view].l1
            assert np.count_nonzero(difference) <= 2 * plan.descent.params.n_nonzeros(both=plan.is_vertical)
    if plan.is_vertical:
        assert most > 0.98 * moved[VIEWS[0]].squared_l2


def test_no_start_is_outside_of_the_set():
    for way in SGD_WAYS.values():
        plan, _ = planned(PARTIES, way)
        points = first_points(plan) / plan.broadcast.units
        assert np.allclose(project(points, 6), points)
        assert replace(plan.broadcast, has_offsets=True).n_bytes - plan.broadcast.n_bytes == 4 * plan.n_rows
