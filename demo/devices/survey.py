"""`moiety demo survey`: devices as real processes answer one question, and some are killed and restarted meanwhile."""

import datetime
import random
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.devices.deployment import deploy, write_device
from demo.devices.processes import DeviceProcesses
from demo.local_deployment import LocalDeployment

RECORD = "minutes"
RANGE = (0.0, 120.0)
BUCKETS = 24
EPSILON = 4.0
KILL_WITHIN_S = 0.3
ENDS_AFTER_S = 90.0
"""When the survey ends where a device sits out: it was killed between the beginning of its response and its payment."""


@dataclass(frozen=True)
class SurveyDemoOutcome:
    """What the demo shows.

    Attributes:
        result: result of the coordinator.
        true_mean: mean of all devices' numbers, which only a demo can read.
        killed: device to its response as it stood when it was killed; None where it had none yet.
        n_sat_out: devices that have no response.
        is_one_each: whether no device ever had two different responses.
    """

    result: Mapping[str, Any]
    true_mean: float
    killed: Mapping[str, int | None]
    n_sat_out: int
    is_one_each: bool


@dataclass
class Restarts:
    """Kills devices one after the other at random moments, and starts each again.

    Attributes:
        devices: all devices.
        names: names of those that are killed.
        seed: seed of the moments.
        found: device to its response as it stood when it was killed.
    """

    devices: DeviceProcesses
    names: tuple[str, ...]
    seed: int
    found: dict[str, int | None] = field(default_factory=dict, init=False)

    def run(self) -> None:
        """Kill and restart all."""
        moments = random.Random(self.seed)  # noqa: S311 -- an accident, not a secret
        for name in self.names:
            time.sleep(moments.uniform(0.0, KILL_WITHIN_S))
            self.devices.kill(name)
            self.found[name] = response_of(self.devices.deployment.folder, name)
            self.devices.launch(name)


def response_of(folder: Path, name: str) -> int | None:
    """Return the response that a device has kept, or None."""
    from device.response_store import read_responses

    known = read_responses(folder / f"{name}.data" / "responses.sqlite")
    return known[0]["response"] if known else None


def write_devices(deployment: LocalDeployment, numbers: Mapping[str, float]) -> None:
    """Write each device's configuration and record."""
    policy: dict[str, dict[str, Any]] = {
        "policy.surveys": {"max_epsilon": EPSILON},
        "policy.budget": {"period": "demo", "epsilon": 2 * EPSILON, "delta": 1e-6, "reason": "demo"},
    }
    for name, number in numbers.items():
        write_device(deployment, name, {"values": [number]}, policy, {"name": RECORD})


def run_demo(stack: ExitStack, folder: Path, n_devices: int, n_killed: int, seed: int) -> SurveyDemoOutcome:
    """Start coordinator and devices, ask, kill and restart devices meanwhile, compare their responses."""
    from analyst.connection import ClientConfig
    from cli.ask import run_question
    from cli.terminal.output import say
    from questions.responses import SurveyQuestion

    deployment, names = deploy(stack, folder, n_devices)
    draw = random.Random(seed)  # noqa: S311 -- made-up data
    numbers = {name: round(RANGE[1] * draw.betavariate(2, 5), 1) for name in names}
    write_devices(deployment, numbers)
    devices = DeviceProcesses(deployment, names)
    devices.start()
    say(f"2/3  asking how their numbers are distributed; {n_killed} devices are killed meanwhile, and started again")
    say(f"     it ends when all have answered, or after {ENDS_AFTER_S:g} s where one was killed before it had paid")
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ENDS_AFTER_S)
    question = SurveyQuestion(
        record=RECORD, range=RANGE, buckets=BUCKETS, epsilon=EPSILON, until=until, responses=n_devices
    )
    restarts = Restarts(devices, tuple(draw.sample(names, n_killed)), seed)
    killing = threading.Thread(target=restarts.run)
    killing.start()
    try:
        client = ClientConfig.load(deployment.client_config)
        result = run_question(client, question)
    finally:
        killing.join()
    say("3/3  comparing the responses that the devices have kept")
    after = {name: response_of(deployment.folder, name) for name in names}
    same = all(before in (None, after[name]) for name, before in restarts.found.items())
    return SurveyDemoOutcome(
        result=result,
        true_mean=sum(numbers.values()) / n_devices,
        killed=restarts.found,
        n_sat_out=sum(response is None for response in after.values()),
        is_one_each=same and result["contradictions"] == 0,
    )


def text_of(outcome: SurveyDemoOutcome) -> str:
    """Return the outcome for people."""
    from results.registry import device_text

    lines = [device_text(outcome.result), "", *picture_of(outcome.result), ""]
    for name, before in sorted(outcome.killed.items()):
        what = "before it had a response" if before is None else "with its response, which stayed the same"
        lines.append(f"  {name} killed and started again, {what}")
    verdict = "one response of each device" if outcome.is_one_each else "WRONG: a device had two different responses"
    lines += [
        f"  sat out         {outcome.n_sat_out} devices, killed after they had begun and before they had paid",
        f"  the check       {verdict}",
        f"  the true mean   {outcome.true_mean:.4g}, which only a demo can read",
    ]
    return "\n".join(lines)


PICTURE_COLUMNS = 40


def picture_of(result: Mapping[str, Any]) -> list[str]:
    """Return the estimated distribution, a bar for each bucket."""
    top = max(result["probabilities"])
    return [
        f"  {lower:7.5g} .. {upper:7.5g} {'#' * round(PICTURE_COLUMNS * p / top)}"
        for lower, upper, p in zip(result["edges"], result["edges"][1:], result["probabilities"], strict=False)
    ]
