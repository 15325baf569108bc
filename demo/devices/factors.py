"""`moiety demo factor-devices`: devices as real processes factorize their users' ratings; some are killed meanwhile."""

import json
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.devices.deployment import deploy, write_device
from demo.devices.processes import N_STAGES, DeviceProcesses, RandomKills
from demo.local_deployment import LocalDeployment

RECORD = "films"
N_FILMS = 30
PER_USER = 12
STAGE_S = 4.0
RANK, LATER_ROUNDS = 2, 2
FORMS: Mapping[str, Mapping[str, Any]] = {
    "statistics": {"rounds": LATER_ROUNDS},
    "sgd": {"form": "sgd", "steps": LATER_ROUNDS + 1, "sampling_rate": 0.5, "most_participations": 2},
}
"""What is asked, by its form: as many rounds in each."""
EPSILON, DELTA = 8.0, 1e-6
KEPT_WITHIN_S = 60.0
NEW_FILM = "film-new"
"""Like the first half of the films, and not among them."""


@dataclass(frozen=True)
class FactorDemoOutcome:
    """What the demo shows.

    Attributes:
        answer: answer of the coordinator.
        seconds: it took.
        killed_after_s: device to the moment of its kill, after the question was asked.
        n_kept: devices that have kept the model.
        recommended: to the user of one device, items and predicted ratings.
        recommending: that device.
        is_consistent: whether all kept models are the answer's, and every device has paid for each round that it is in,
            in the form sgd for as many as it can be sampled in.
        later: answer to a question that starts from the first one, about one new rating of each device; None where it
            was not asked.
    """

    answer: Mapping[str, Any]
    seconds: float
    killed_after_s: Mapping[str, float]
    n_kept: int
    recommended: list[tuple[str, float]]
    recommending: str
    is_consistent: bool
    later: Mapping[str, Any] | None = None


def made_up_ratings(names: tuple[str, ...], seed: int) -> dict[str, list[tuple[str, float]]]:
    """Return each user's ratings of 1 to 5: some like the first half of the films, others the second."""
    draw = random.Random(seed)  # noqa: S311 -- made-up data
    found = {}
    for name in names:
        likes_first = draw.random() < 0.5
        films = draw.sample(range(N_FILMS), PER_USER)
        found[name] = [(f"film-{i}", 4.5 if (i < N_FILMS // 2) == likes_first else 1.5) for i in films]
    return found


def write_devices(deployment: LocalDeployment, ratings: Mapping[str, list[tuple[str, float]]]) -> None:
    """Write each device's configuration and ratings."""
    policy: dict[str, dict[str, Any]] = {
        "policy": {"smallest_cohort": len(ratings) // 2 + 1, "corrupt_fraction": 0.0},
        "policy.budget": {"period": "demo", "epsilon": 4 * EPSILON, "delta": DELTA, "reason": "demo"},
    }
    record = {"kind": "ratings", "name": RECORD, "items": films(), "bounds": [1.0, 5.0], "features": kinds()}
    for name, rated in ratings.items():
        write_device(deployment, name, {"ratings": rated}, policy, record)


def films() -> list[str]:
    """Return the public list of items."""
    return [f"film-{i}" for i in range(N_FILMS)]


def kinds() -> list[list[float]]:
    """Return public features of the items: of which half they are."""
    return [[float(i < N_FILMS // 2)] for i in range(N_FILMS)]


def run_demo(
    stack: ExitStack,
    folder: Path,
    n_devices: int,
    n_killed: int,
    seed: int,
    form: str = "statistics",
    *,
    again: bool = False,
) -> FactorDemoOutcome:
    """Start coordinator and devices, ask, kill devices meanwhile, compare what the others have kept.

    With `again` those that live get one new rating in the place of their old ones, and are asked once more, from the
    first answer on.
    """
    from analyses.job.ratings import digest_of_items
    from analyses.matrix_factorization.devices.question import NAME, FactorQuestion
    from analyses.matrix_factorization.serving.new_items import NewItems
    from cli.terminal.output import say
    from device.config import DeviceConfig
    from device.recommend import recommend_own

    deployment, names = deploy(stack, folder, n_devices)
    write_devices(deployment, made_up_ratings(names, seed))
    devices = DeviceProcesses(deployment, names)
    devices.start()
    n_rounds = LATER_ROUNDS + 1
    say(f"2/3  asking for a model of {N_FILMS} films in {n_rounds} rounds; {n_killed} devices are killed meanwhile")
    question = FactorQuestion(
        analysis=NAME,
        record=RECORD,
        items=N_FILMS,
        items_digest=digest_of_items(films()),
        ratings_per_user=PER_USER,
        lower=1.0,
        upper=5.0,
        rank=RANK,
        stage_s=STAGE_S,
        privacy={"epsilon": EPSILON, "delta": DELTA},
        **FORMS[form],
        **({"features": kinds()} if form == "statistics" else {}),
    )
    after_the_first = range(N_STAGES, N_STAGES * n_rounds)
    answer, seconds, killed = RandomKills.draw(devices, n_killed, seed, after_the_first).ask(question)
    say("3/3  comparing what the devices have paid for and kept")
    alive = tuple(name for name in names if name not in killed)
    last = [name for name in answer["rounds"][-1]["survivors"] if name in alive]
    configs = {name: DeviceConfig.load(deployment.config_path(name)) for name in names}
    models = {name: kept_model(configs[name]) for name in last}
    same = all(one is not None and one == (answer["offsets"], answer["vectors"]) for one in models.values())
    paid = {name: config.read_ledger()["budget"]["committed_jobs"] for name, config in configs.items()}
    most = n_rounds if question.most_participations is None else question.most_participations
    owed = {name: min(most, sum(name in one["survivors"] for one in answer["rounds"])) for name in names}
    chosen = next(name for name in last if models[name] is not None)
    new = NewItems.of_lines([f"{NEW_FILM},1"]) if form == "statistics" else None
    found = recommend_own(configs[chosen], RECORD, top=3, new=new)
    later = ask_again(deployment, devices, question, answer, alive) if again else None
    return FactorDemoOutcome(
        answer=answer,
        seconds=seconds,
        killed_after_s=killed,
        n_kept=sum(model is not None for model in models.values()),
        recommended=[(one.item, one.rating) for one in found],
        recommending=chosen,
        is_consistent=same and all(paid[name] >= owed[name] for name in names),
        later=later,
    )


def ask_again(
    deployment: LocalDeployment,
    devices: DeviceProcesses,
    question: Any,
    answer: Mapping[str, Any],
    alive: Sequence[str],
) -> dict[str, Any]:
    """Return the answer to the same question about new ratings, which starts from an earlier answer."""
    from analyses.matrix_factorization.jobs.earlier import start_of
    from cli.terminal.output import say

    say("     asking again, from this answer on, for one new rating of each; the old ones are in no file any more")
    for place, name in enumerate(alive):
        deployment.folder.joinpath(f"{name}.json").write_text(json.dumps({"ratings": [[films()[place], 5.0]]}))
    asked = question.model_copy(update={"members": tuple(alive), "stage_s": 10 * STAGE_S})
    fields = asked.model_dump(exclude_none=True) | {"start": start_of(answer)}
    found, _, _ = RandomKills(devices, {}).ask(type(question).model_validate(fields))
    return found


def kept_model(config: Any) -> tuple[list[int], list[list[int]]] | None:
    """Return the offsets and vectors that a device has kept; it writes them a moment after the answer."""
    from device.models import NoModelError, newest_model

    deadline_s = time.monotonic() + KEPT_WITHIN_S
    while time.monotonic() < deadline_s:
        try:
            model = newest_model(config.data_dir, RECORD).model
        except NoModelError:
            time.sleep(0.02)
        else:
            return model.offsets_q.tolist(), model.vectors_q.tolist()
    return None


def text_of(outcome: FactorDemoOutcome) -> str:
    """Return the outcome for people."""
    from results.registry import device_text

    lines = [f"{outcome.seconds:.1f} s", device_text(outcome.answer), ""]
    for name, moment_s in sorted(outcome.killed_after_s.items(), key=lambda item: item[1]):
        rounds = [str(t) for t, one in enumerate(outcome.answer["rounds"]) if name in one["survivors"]]
        lines.append(f"  {name} killed after {moment_s:5.2f} s; it is in round {', '.join(rounds) or 'none'}")
    shown = ", ".join(f"{item} ({rating:.2f})" for item, rating in outcome.recommended)
    verdict = "the same model at all, and every round paid for" if outcome.is_consistent else "WRONG: they differ"
    if outcome.later is not None:
        lines += ["", "from that answer on, about new ratings alone:", device_text(outcome.later), ""]
    lines += [
        f"  recommended     to the user of {outcome.recommending}, by itself: {shown}",
        f"  kept            by {outcome.n_kept} devices",
        f"  the check       {verdict}",
        "  usefulness      so few users are hidden by their noise altogether; the page says how many it takes",
    ]
    return "\n".join(lines)
