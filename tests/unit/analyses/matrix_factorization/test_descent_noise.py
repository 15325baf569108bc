"""The noise that a job of the form `sgd` adds is the plan's, whoever drops out; exact sums leave no party."""

import math

import numpy as np
import pytest
from factor_runs import FOUR, Lost, run_with
from rating_jobs import SGD, job_of, rows_of, table_of

from analyses.matrix_factorization import protocol
from analyses.matrix_factorization.descent import descent_parts
from analyses.matrix_factorization.descent.descent_parts import member_of
from entropy import InsecureTestEntropy
from mpc.protocol.session import COORDINATOR
from mpc.secagg.stage import Stage

N = 6000
PARAMETERS = {**SGD, "rank": 1, "steps": 1}


def planned(parameters, setting="horizontal", value=None):
    """A job about N items, or N users in the vertical setting; with a value, of one rating at the bank."""
    n_items, users = (N, 50) if setting == "horizontal" else (2, N)
    declared = {"n_items": n_items, "users": users, "per_user": 1}
    tables = {p: table_of(p, rows_of(["3"], [-1], [1.0]), **declared) for p in FOUR}
    if value is not None:
        tables["bank"] = table_of("bank", rows_of(["3"], [1], [value]), **declared)
    job = job_of(FOUR, colluding=1, parameters={**parameters, "setting": setting}, deadline_s=40.0)
    return protocol.plan(job, [tables[name].schema for name in job.members]), tables


def opened_sums(monkeypatch, plan, tables, fault):
    """Return what the coordinator makes its only step of."""
    seen = []
    moved, mean_of = descent_parts.moved, descent_parts.mean_of

    def note_sum(descent, points, total):
        seen.append(total)
        return moved(descent, points, total)

    def note_mean(descent, total, n_members):
        seen.append((total, n_members))
        return mean_of(descent, total, n_members)

    monkeypatch.setattr(descent_parts, "moved", note_sum)
    monkeypatch.setattr(descent_parts, "mean_of", note_mean)
    ended = run_with(plan, tables, fault)
    assert len(ended.result["rounds"]) == 1
    (found,) = seen
    return found, ended


def has_variance(drawn, variance):
    return abs(np.mean(drawn.astype(float) ** 2) / variance - 1) < 6 * math.sqrt(2 / drawn.size)


@pytest.mark.parametrize("setting", ["horizontal", "vertical"])
@pytest.mark.parametrize("stage", [None, Stage.MASK, Stage.UNMASK])
def test_exactly_the_noise_of_the_plan_is_in_an_opened_sum_whoever_drops_out(monkeypatch, setting, stage):
    plan, tables = planned(PARAMETERS, setting)
    total, ended = opened_sums(monkeypatch, plan, tables, Lost(4, stage, 0))
    assert len(ended.result["rounds"][0]["survivors"]) == (3 if stage is Stage.MASK else 4)
    assert has_variance(total, 2 * plan.descent.sum_noise.mu)
    assert not has_variance(total, 1.25 * 2 * plan.descent.sum_noise.mu)


def test_with_noise_by_each_party_means_have_the_noise_of_all_survivors(monkeypatch):
    plan, tables = planned({**PARAMETERS, "noise": "party"})
    (total, n_members), _ = opened_sums(monkeypatch, plan, tables, lambda message: (message,))
    assert n_members == 4
    start, params = descent_parts.first_points(plan), plan.descent.params
    step = params.learning_rate * params.factor_units / (params.divisor * params.units)
    drawn = (total - 4 * start + 2) / step  # each of the four is rounded toward zero
    free = ((start > 500) & (start < 2.3 * params.factor_units)).ravel()  # those that no projection moves
    assert free.sum() > 0.5 * N
    assert abs(drawn.ravel()[free].var() / (4 * 2 * plan.descent.own_noise.mu) - 1) < 0.25


def test_no_exact_sum_is_in_what_the_coordinator_receives():
    """Beside keys and signatures only masked vectors reach it: none of them is a member's vector, noised or not."""
    plan, tables = planned({**PARAMETERS, "sampling_rate": 1.0}, value=3.0)
    own = protocol.read_table(plan, tables["bank"])
    exact = member_of(plan, own.ratings, InsecureTestEntropy("bank")).gradient(descent_parts.first_points(plan))
    assert exact.any()
    ended = run_with(plan, tables)
    sent = [m for m in ended.network.transcript if m.receiver == COORDINATOR]
    assert {m.stage for m in sent if "round 0" not in m.stage} == {"signing key"}
    masked = [m.array for m in sent if m.stage.startswith(str(Stage.MASK))]
    assert len(masked) == 4
    for array in masked:
        # Uniform in the ring: noise of the plan would leave the upper bits alike.
        words = np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)
        assert len(np.unique(words)) > 250
    assert not any(exact.tobytes() in m.array.tobytes() for m in ended.network.transcript)
    assert all("3.0" not in str(error) for error in ended.failures)
