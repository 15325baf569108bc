"""`moiety demo sum`: devices as real processes of which some are killed at random moments."""

import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.devices.deployment import deploy, write_device
from demo.devices.processes import DeviceProcesses, RandomKills
from demo.local_deployment import LocalDeployment

RECORD = "steps"
N_HOURS = 24
LARGEST = 5000
STAGE_S = 3.0


def write_devices(deployment: LocalDeployment, records: Mapping[str, list[int]]) -> None:
    """Write each device's configuration and record."""
    policy = {"policy": {"smallest_cohort": len(records) // 2 + 1, "corrupt_fraction": 0.0, "exact_sums": True}}
    for name, values in records.items():
        write_device(deployment, name, {"values": values}, policy, {"name": RECORD, "length": N_HOURS})


def random_records(names: tuple[str, ...], seed: int) -> dict[str, list[int]]:
    """Return steps per hour of each device: made up, so that everybody may check the sum."""
    draw = random.Random(seed)  # noqa: S311 -- made-up data
    return {name: [draw.randrange(LARGEST) for _ in range(N_HOURS)] for name in names}


@dataclass(frozen=True)
class SumOutcome:
    """What the demo shows.

    Attributes:
        answer: answer of the coordinator.
        seconds: it took.
        killed_after_s: device to the moment of its kill, after the question was asked.
        survivors_sum: what the survivors' records, read by the demo, add up to.
        is_exact: whether the answer is the same.
    """

    answer: Mapping[str, Any]
    seconds: float
    killed_after_s: Mapping[str, float]
    survivors_sum: list[int]
    is_exact: bool


def run_demo(stack: ExitStack, folder: Path, n_devices: int, n_killed: int, seed: int) -> SumOutcome:
    """Start coordinator and devices, ask for the sum, kill devices meanwhile, compare."""
    from analyses.sums.secure_sum import SumParams
    from cli.terminal.output import say

    deployment, names = deploy(stack, folder, n_devices)
    records = random_records(names, seed)
    write_devices(deployment, records)
    devices = DeviceProcesses(deployment, names)
    devices.start()
    say(f"2/3  asking for the sum of {N_HOURS} numbers of each; {n_killed} devices are killed meanwhile")
    question = SumParams(analysis="secure-sum", record=RECORD, length=N_HOURS, largest=LARGEST, stage_s=STAGE_S)
    answer, seconds, killed = RandomKills.draw(devices, n_killed, seed).ask(question)
    say("3/3  comparing with the survivors' records, which only a demo can read")
    survivors = [records[name] for name in answer["survivors"]]
    survivors_sum = [sum(hour) for hour in zip(*survivors, strict=True)]
    return SumOutcome(answer, seconds, killed, survivors_sum, answer["sum_in_units"] == survivors_sum)


def text_of(outcome: SumOutcome) -> str:
    """Return the outcome for people."""
    answer = outcome.answer
    lines = [f"Sum of {len(answer['survivors'])} devices, {N_HOURS} numbers each, in {outcome.seconds:.1f} s", ""]
    for name, moment_s in sorted(outcome.killed_after_s.items(), key=lambda item: item[1]):
        if name in answer["vanished"]:
            what = f"dropped out at stage {answer['vanished'][name]}: not in the sum"
        elif name in answer["silent_after"]:
            what = f"dropped out at stage {answer['silent_after'][name]}: its vector had arrived and is in the sum"
        else:
            what = "had sent everything before"
        lines.append(f"  {name} killed after {moment_s:5.2f} s, {what}")
    shown = ", ".join(f"{value} in hour {hour}" for hour, value in enumerate(answer["sum_in_units"][:4]))
    verdict = "exact: equal in every entry" if outcome.is_exact else "WRONG: the two differ"
    lines += ["", f"  the sum         {shown}, ...", f"  the check       {verdict}"]
    lines += [
        "  privacy         one device's numbers are hidden from everybody; their sum has no noise, so it is as private"
    ]
    lines += ["                  as so many others make it. With noise: [privacy] in examples/sum.toml"]
    return "\n".join(lines)
