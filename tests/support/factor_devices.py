"""Devices with ratings: made-up records, a question about them, and devices that answer it."""

import asyncio
import json
from dataclasses import replace

import numpy as np
from deadlines import GENEROUS_S
from rating_tables import made_up

from analyses.job.ratings import digest_of_items
from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember
from analyses.matrix_factorization.descent.projected_descent import descend
from analyses.matrix_factorization.devices.descent_rounds import DescentRounds
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.record import Coins, DeclaredRatings, RatedItems, device_vector
from analyses.matrix_factorization.devices.statistics_rounds import PRIOR
from analyses.matrix_factorization.horizontal import Estimates, HorizontalRounds, TooFewSurvivorsError
from analyses.matrix_factorization.model import FactorModel
from device.factors import FactorDevice, FactorRound
from device.ratings import KeptRatings
from entropy import KeyStream, SystemEntropy
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.secret.surplus import n_opened_by
from mpc.secagg.vector.group import RingGroup
from service.identity import Role
from transport.happenings import Opened, StageReport
from transport.question_client import ask

N_ITEMS, PER_USER = 12, 6
BOUNDS = (-3.0, 3.0)
FEATURES = tuple((float(item % 2), float(item % 3 == 0)) for item in range(N_ITEMS))
DECLARED = DeclaredRatings(N_ITEMS, *BOUNDS, most=N_ITEMS, features=FEATURES)
"""Features that a question does not state change nothing."""


def factor_question(**changes) -> FactorQuestion:
    fields = {
        "analysis": "matrix-factorization",
        "record": "films",
        "items": N_ITEMS,
        "items_digest": digest_of_items(N_ITEMS),
        "ratings_per_user": PER_USER,
        "lower": BOUNDS[0],
        "upper": BOUNDS[1],
        "rank": 2,
        "rounds": 2,
        "stage_s": GENEROUS_S,
        "attempts": 1,
        "privacy": {"epsilon": 8.0, "delta": 1e-6},
    }
    return FactorQuestion.model_validate({**fields, **changes})


def descent_question(**changes) -> FactorQuestion:
    """A question of the form sgd, of four steps, in which each device is twice."""
    fields = {"form": "sgd", "rounds": None, "steps": 4, "sampling_rate": 0.5, "most_participations": 2, "theta": 4}
    return factor_question(**{**fields, **changes})


def made_up_records(names, seed=1) -> dict[str, RatedItems]:
    """Device to its user's ratings."""
    ratings, _ = made_up(len(names), N_ITEMS, PER_USER, seed=seed)
    found = {}
    for place, name in enumerate(names):
        own = slice(ratings.starts[place], ratings.starts[place + 1])
        found[name] = RatedItems(tuple(map(str, ratings.columns[own])), ratings.deviations[own].copy())
    return found


def with_ratings(device, record: RatedItems, folder=None, **changes):
    """The same device, which also answers matrix factorizations."""
    kept = KeptRatings(DECLARED, lambda: record)
    fields = {
        "name": device.name,
        "ratings": {"films": kept},
        "budget": device.budget,
        "entropy": SystemEntropy(),
        "data_dir": folder,
    }
    return replace(device, factors=FactorDevice(**{**fields, **changes}))


async def ask_factors(federation, asked: FactorQuestion, on_report=lambda report: None) -> list:
    """All that an analyst hears of a question, its result or failure last."""
    heard = []
    async with federation.channel(Role.ANALYST, "ada") as channel, asyncio.timeout(GENEROUS_S):
        async for happening in ask("hub", channel, "sum", asked.canonical_json()):
            if not isinstance(happening, Opened):
                heard.append(happening)
            if isinstance(happening, StageReport) and (got := on_report(happening)) is not None:
                await got
    return heard


class Contributions:
    """What devices contribute: noted as it leaves the record, before it is masked.

    Attributes:
        of: device and round to its vector, its noise and the seeds of that.
        coins: device and round to what its coin was thrown with, in the form sgd.
    """

    def __init__(self, monkeypatch) -> None:
        self.of: dict[tuple[str, int], tuple[np.ndarray, np.ndarray, tuple[bytes, ...]]] = {}
        self.coins: dict[tuple[str, int], Coins | None] = {}
        original = FactorRound.contribute

        def contribute(answered, seeds):
            values, noise = original(answered, seeds)
            of_round = answered.device.name, answered.config.round_id.number
            self.of[of_round], self.coins[of_round] = (values, noise, tuple(seeds)), answered._coins
            return values, noise

        monkeypatch.setattr(FactorRound, "contribute", contribute)

    def reference(self, asked: FactorQuestion, records, survivors_of_round):
        """The result in one process: from the records, and from the noise that the devices have drawn."""
        rounds = rounds_of(asked, len(records))
        if isinstance(rounds, DescentRounds):
            return self._descent(rounds, records, survivors_of_round)
        improved = HorizontalRounds(rounds.plan, Estimates.of(PRIOR, asked.features, asked.start and asked.start.model))
        names = list(records)
        for number, survivors in enumerate(survivors_of_round):
            for name in survivors:
                values, *_ = self.of[name, number]
                kept = KeptRatings(DECLARED, lambda name=name: records[name])
                expected = device_vector(rounds, number, improved.model, DECLARED, kept.used())
                assert np.array_equal(values, expected)
            improved.improve(self._opened(rounds.noise(number), number, names, survivors))
        return improved.result().model

    def _opened(self, noise, number, names, survivors):
        """The sum of a round, noise in excess removed."""
        total, seeds = 0, {}
        n_opened = n_opened_by(noise.levels, len(survivors))
        for name in survivors:
            values, drawn, chain = self.of[name, number]
            total = total + values + drawn
            seeds[names.index(name) + 1] = chain[:n_opened]
        group = RingGroup(62)
        opened = OpenedSum(group, group.encode(total), tuple(seeds), {}, {}, (), seeds if n_opened else {})
        return np.asarray(noise.remove_surplus(opened).integers(), dtype=np.int64)

    def _descent(self, rounds, records, survivors_of_round):
        """The form sgd in one process: members that stay from the first step to the last, with the devices' entropy."""
        members = {}

        def opened(step, points):
            if step >= len(survivors_of_round):
                raise TooFewSurvivorsError("no round follows")
            for (name, number), coins in self.coins.items():
                if number != step:
                    continue
                if name not in members:
                    used = KeptRatings(DECLARED, lambda name=name: records[name]).used()
                    own = used.ratings(DECLARED, rounds.question.middle)
                    members[name] = HorizontalMember(rounds.plan, own, rounds.first_points, KeyStream(coins.key))
                values, *_ = self.of[name, number]
                assert np.array_equal(values, members[name].gradient(points).ravel())
            survivors = survivors_of_round[step]
            total = self._opened(rounds.noise(step), step, list(records), survivors)
            return total.reshape(points.shape), len(survivors)

        points = descend(rounds.plan, rounds.first_points, opened)
        return FactorModel(np.zeros(len(points), dtype=np.int64), points, rounds.broadcast.units)


def rounds_in(answer: dict) -> list[list[str]]:
    """The survivors of each round."""
    return [one["survivors"] for one in answer["rounds"]]


def record_file(path, rated: RatedItems) -> None:
    """Write a record as a device reads it."""
    pairs = [[item, value] for item, value in zip(rated.items, rated.values.tolist(), strict=True)]
    path.write_text(json.dumps({"ratings": pairs}))
