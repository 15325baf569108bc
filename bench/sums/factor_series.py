"""A matrix factorization over devices by real gRPC, of whom a fifth goes at moments that are drawn.

    python -m bench.sums.factor_series                        1,000 devices, form statistics, p = 2, three rounds
    python -m bench.sums.factor_series --form sgd             three steps of projected descent, p = 4
    python -m bench.sums.factor_series --devices 40 --grace-s 2

The coordinator is `moiety coordinator serve`. Each device has a certificate, a TLS connection, a privacy ledger and
journals on disk of its own; all of them are in one other process, which checks each signature once for all of them
(`bench.sums.secagg`, where why is said). A device that goes does so before one of its messages, any of any round, each
as likely, and sends nothing any more.

The devices' process notes what noise each device drew. The answer must be, bit for bit, what one process makes of the
survivors' ratings and that noise, round after round; else this fails. Beside it stands how far the released offsets, or
in the form sgd the embeddings, are from those of the same rounds without any noise.

A thousand devices that share two cores take 24 minutes in the form sgd with `--grace-s 40`: ten of them are the grace
of fifteen stages, each of which waits in full where somebody is gone, and less than two the comparison.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from analyses.matrix_factorization.descent.horizontal_descent import HorizontalMember
from analyses.matrix_factorization.devices.descent_rounds import DescentRounds
from analyses.matrix_factorization.devices.planned import rounds_of
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.matrix_factorization.devices.record import Coins, DeclaredRatings, RatedItems, UsedRatings
from analyses.matrix_factorization.devices.statistics_rounds import PRIOR, StatisticsRounds
from analyses.matrix_factorization.horizontal import member_vector
from analyses.matrix_factorization.ratings import Ratings
from analyst.connection import ClientConfig, open_coordinator
from bench.machine import describe_machine, peak_resident_bytes, processor_s
from bench.sums.connecting import Connecting
from bench.sums.factor_devices import BOUNDS, VANISHING, made_up_ratings, question_of, with_values
from bench.sums.secagg import MeteredClient, WrongSumError, share_checks
from demo.local_deployment import COORDINATOR_NAME, LocalDeployment
from device.budget import DeviceBudget
from device.device import Device
from device.factors import FactorDevice, FactorRound
from device.journal import SqliteSampleJournal, SqliteSumJournal
from device.ratings import KeptRatings
from dp.cost.views import MEMBER_UNIT
from entropy import KeyStream, SystemEntropy
from ledger.budget import Budget
from mpc.secagg.coordinator import FromMembers
from mpc.secagg.opened_sum import OpenedSum
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.secret.surplus import n_opened_by
from mpc.secagg.vector.group import RingGroup
from service.identity import Identity, Role
from service.tls import load_credentials
from transport.calls.channel import open_channel
from transport.happenings import Failed, Result, StageReport
from transport.question_client import ask

Integers = NDArray[np.int64]

MESSAGES = 5
"""Of a member in a round, at most."""
TOLERATED = 0.25
"""Part of the devices that a round may lose: more than go, as those that are late are lost too."""
PATIENCE_S = 600.0
AMPLE = Budget(MEMBER_UNIT, "bench", 1000.0, 1e-5)


class LeavingClient(MeteredClient):
    """Counts what its member sends; the member goes before its `last`-th message, counted from 0."""

    last: int | None = None
    _n_sent = 0

    async def answer(self, message: FromMembers) -> None:
        """Send the message, or go."""
        if self._n_sent == self.last:
            await asyncio.Event().wait()
        self._n_sent += 1
        await super().answer(message)


class Drawn:
    """What each device drew: its noise with the seeds of it, and in the form sgd what its coin was thrown with."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, int], tuple[Integers, tuple[bytes, ...], Coins | None]] = {}
        original = FactorRound.contribute

        def contribute(answered: FactorRound, seeds: tuple[bytes, ...]) -> tuple[Integers, Integers | None]:
            values, noise = original(answered, seeds)
            assert noise is not None
            self.of[answered.device.name, answered.config.round_id.number] = (noise, tuple(seeds), answered._coins)
            return values, noise

        FactorRound.contribute = contribute  # type: ignore[method-assign]


def exact_sum(
    rounds: Any, number: int, model: Any, ratings: dict[str, Ratings], names: list[str], drawn: Drawn
) -> Integers:
    """Return the sum of some devices' vectors, made of their ratings in one process."""
    if isinstance(rounds, StatisticsRounds):
        held = [ratings[name] for name in names]
        rows = np.concatenate([one.rows + place for place, one in enumerate(held)])
        columns, values = (np.concatenate([getattr(one, what) for one in held]) for what in ("columns", "deviations"))
        together = Ratings.of(rows, columns, values, len(held), rounds.question.items)
        return member_vector(rounds.plan, number, model, together, PRIOR)
    assert isinstance(rounds, DescentRounds)
    points = rounds.first_points if model is None else model.vectors_q
    total = np.zeros(points.shape, dtype=np.int64)
    for name in names:
        coins = drawn.of[name, number][2]
        assert coins is not None
        stream = KeyStream(coins.key)
        total += HorizontalMember(rounds.plan, ratings[name], rounds.first_points, stream, coins.n_before).gradient(
            points
        )
    return total.ravel()


def central(
    question: FactorQuestion, ratings: dict[str, Ratings], survivors: list[list[str]], drawn: Drawn, *, noisy: bool
) -> Any:
    """Return the model that one process makes of the survivors' ratings, with the noise that they drew or without."""
    rounds = rounds_of(question, len(ratings))
    progress, numbers, group = rounds.begin(), {name: i for i, name in enumerate(ratings, start=1)}, RingGroup(62)
    for number, names in enumerate(survivors):
        total = exact_sum(rounds, number, progress.model, ratings, names, drawn)
        if noisy:
            noise = rounds.noise(number)
            n_opened = n_opened_by(noise.levels, len(names))
            seeds = {numbers[name]: drawn.of[name, number][1][:n_opened] for name in names}
            total = total + sum(drawn.of[name, number][0] for name in names)
            opened = OpenedSum(group, group.encode(total), tuple(seeds), {}, {}, (), seeds if n_opened else {})
            total = np.asarray(noise.remove_surplus(opened).integers(), dtype=np.int64)
        progress.improve(total)
    return progress.released()


def asked(options: argparse.Namespace) -> FactorQuestion:
    """Return the question of the form."""
    base = question_of(options)
    changes: dict[str, Any] = {"stage_s": options.stage_s, "grace_s": options.grace_s, "attempts": 1}
    changes["vanishing"] = int(TOLERATED * options.devices)
    if options.form == "sgd":
        changes |= {"form": "sgd", "rounds": None, "steps": options.rounds + 1, "rank": 4, "sampling_rate": 0.5}
        changes |= {"most_participations": min(2, options.rounds + 1)}
    return FactorQuestion.model_validate({**base.model_dump(exclude_none=True), **changes})


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run one series, and compare it."""
    question, rng, drawn = asked(options), np.random.default_rng(options.seed), Drawn()
    names = [f"device-{i:04}" for i in range(1, options.devices + 1)]
    held = dict(zip(names, with_values(made_up_ratings(len(names), options.items, rng), rng), strict=True))
    n_rounds = rounds_of(question, len(names)).n_rounds
    going = rng.choice(names, int(VANISHING * len(names)), replace=False)
    lasts = dict(zip(going, rng.integers(0, MESSAGES * n_rounds, len(going)).tolist(), strict=True))
    keys = {name: IdentityKey(SystemEntropy()) for name in names}
    with (
        tempfile.TemporaryDirectory(prefix="moiety-bench-") as folder,
        LocalDeployment(
            Path(folder),
            {},
            members=[(Role.DEVICE, name) for name in names],
            sum_members={name: key.public_bytes.hex() for name, key in keys.items()},
        ) as deployment,
    ):
        answer, found = asyncio.run(_measure(deployment, keys, question, held, lasts))
    survivors = [one["survivors"] for one in answer["rounds"]]
    declared = DeclaredRatings(options.items, *BOUNDS, most=options.items)
    ratings = {name: used.ratings(declared, question.middle) for name, used in held.items()}
    sys.stderr.write("compared with one process\n")
    same, exact = (central(question, ratings, survivors, drawn, noisy=noisy) for noisy in (True, False))
    if (answer["offsets"], answer["vectors"]) != (same.offsets_q.tolist(), same.vectors_q.tolist()):
        raise WrongSumError("the model is not that of the survivors' ratings and noise")
    what = "vectors_q" if question.form == "sgd" else "offsets_q"
    away = (getattr(same, what) - getattr(exact, what)) / same.units
    return {
        "form": question.form,
        "devices": len(names),
        "items": question.items,
        "rank": answer["rank"],
        "went_at_their_message": sorted(lasts.values()),
        "survivors": [len(one) for one in survivors],
        "ended_early_because": answer["ended_early_because"],
        "equals_one_process_bit_for_bit": True,
        "root_mean_square_of_what_noise_moved": float(np.sqrt(np.mean(away**2))),
        **found,
    }


async def _measure(
    deployment: LocalDeployment,
    keys: dict[str, IdentityKey],
    question: FactorQuestion,
    held: dict[str, UsedRatings],
    lasts: dict[str, int],
) -> tuple[dict[str, Any], dict[str, Any]]:
    coordinator = Identity(deployment.federation, Role.COORDINATOR, COORDINATOR_NAME)
    address, folder = deployment.addresses[COORDINATOR_NAME], deployment.folder
    pid = deployment.processes[COORDINATOR_NAME].pid
    policy = MemberPolicy(pinned={name: key.public_bytes for name, key in keys.items()}, smallest_cohort=3)
    declared = DeclaredRatings(question.items, *BOUNDS, most=question.items)
    clients: dict[str, LeavingClient] = {}
    reports: list[StageReport] = []
    answer = None
    async with AsyncExitStack() as stack:
        closing = stack.enter_context(ExitStack())
        members = Connecting()
        for name, key in keys.items():
            own = load_credentials(
                authority=folder / "ca.pem", certificate=folder / f"{name}.pem", key=folder / f"{name}.key"
            )
            channel = await stack.enter_async_context(open_channel(address, coordinator, own))
            clients[name] = LeavingClient(COORDINATOR_NAME, channel, PATIENCE_S)
            clients[name].last = lasts.get(name)
            data = folder / f"{name}.data"
            data.mkdir()
            budget = DeviceBudget.open(data, name, "bench", COORDINATOR_NAME, AMPLE, "bench")
            journal, samples = SqliteSumJournal(data / "sums.sqlite"), SqliteSampleJournal(data / "samples.sqlite")
            for one in (budget, journal, samples):
                closing.callback(one.close)
            rated = RatedItems(tuple(map(str, held[name].places)), held[name].values)
            kept = KeptRatings(declared, lambda rated=rated: rated)  # type: ignore[misc]
            factors = FactorDevice(name, {question.record: kept}, budget, SystemEntropy(), data, samples=samples)
            device = Device(
                name, clients[name], key, policy, journal, {}, SystemEntropy(), budget=budget, factors=factors
            )
            await members.begin(device.run(), channel)
        stack.push_async_callback(members.end)
        await members.all_connected()
        started_s, cpu_before_s, members_before_s = time.monotonic(), processor_s(pid), time.process_time()
        async with open_coordinator(ClientConfig.load(deployment.client_config)) as (name, channel):
            async for happening in ask(name, channel, "sum", question.canonical_json()):
                if isinstance(happening, StageReport):
                    reports.append(happening)
                    sys.stderr.write(
                        f"{happening.stage}: {happening.seconds:.0f} s, {len(happening.missing)} missing\n"
                    )
                elif isinstance(happening, Result):
                    answer = json.loads(happening.result_json)
                elif isinstance(happening, Failed):
                    raise WrongSumError(happening.reason[:500])
        seconds, coordinator_s = time.monotonic() - started_s, processor_s(pid) - cpu_before_s
        members_s, resident = time.process_time() - members_before_s, peak_resident_bytes(pid)
    if answer is None:
        raise WrongSumError("the coordinator gave no answer")
    return answer, {
        "seconds": seconds,
        "stages": [{"stage": one.stage, "seconds": one.seconds, "missing": len(one.missing)} for one in reports],
        "coordinator_processor_s": coordinator_s,
        "device_processor_s": members_s / len(keys),
        "coordinator_peak_resident_bytes": resident,
        "devices_peak_resident_bytes": peak_resident_bytes("self"),
        "sent_bytes_by_a_device": max(client.sent_bytes for client in clients.values()),
    }


def main() -> None:
    """Measure and print the report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=("statistics", "sgd"), default="statistics")
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--items", type=int, default=1682)
    parser.add_argument("--rank", type=int, default=2, help="of the form statistics")
    parser.add_argument("--rounds", type=int, default=2, help="after the first one")
    parser.add_argument("--stage-s", type=float, default=600.0, help="deadline of each stage")
    parser.add_argument("--grace-s", type=float, default=20.0, help="how long a stage with its quorum waits for more")
    parser.add_argument("--seed", type=int, default=1, help="of the ratings, and of who goes when")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    share_checks()
    report = {"bench": "factor_series", "run": measure(options), "machine": describe_machine()}
    sys.stdout.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
