"""`moiety demo sum`: devices as real processes of which some are killed at random moments."""

import random
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from demo.devices.deployment import deploy, write_device
from demo.local_deployment import LocalDeployment

RECORD = "steps"
N_HOURS = 24
LARGEST = 5000
STAGE_S = 3.0
N_STAGES = 5
KILL_WITHIN_S = 0.1


@dataclass
class DeviceProcesses:
    """Devices on this machine, each a process of the deployment with its own certificate, key, journal and connection.

    Attributes:
        deployment: with the coordinator; running. It ends the devices too.
        names: names of the devices.
        killed_at_s: device to the moment at which it was killed, seconds after `time.monotonic`'s zero.
    """

    deployment: LocalDeployment
    names: tuple[str, ...]
    killed_at_s: dict[str, float] = field(default_factory=dict, init=False)

    def start(self) -> None:
        """Start all and wait until they are ready."""
        for name in self.names:
            self.deployment.launch(
                name, "cli.main", "device", "run", "--config", str(self.deployment.config_path(name))
            )
        for name in self.names:
            self.deployment.wait_until_logged(name, "member is ready")

    def kill(self, name: str) -> None:
        """End a device as a power cut would."""
        self.deployment.send_signal(name, signal.SIGKILL)
        self.killed_at_s[name] = time.monotonic()


@dataclass
class RandomKills:
    """Kills devices at random moments of a round: each in a random stage, a random time after it began.

    Attributes:
        devices: devices of which some are killed.
        moments: stage, counted from 0, to devices and the seconds after its beginning.
    """

    devices: DeviceProcesses
    moments: Mapping[int, Mapping[str, float]]
    timers: list[threading.Timer] = field(default_factory=list, init=False)
    n_begun: int = field(default=0, init=False)

    @classmethod
    def draw(cls, devices: DeviceProcesses, n_killed: int, seed: int) -> Self:
        """Choose devices and moments."""
        source = random.Random(seed)  # noqa: S311 -- an accident, not a secret
        moments: dict[int, dict[str, float]] = {}
        for name in source.sample(devices.names, n_killed):
            moments.setdefault(source.randrange(N_STAGES), {})[name] = source.uniform(0.0, KILL_WITHIN_S)
        return cls(devices, moments)

    def stage_begins(self) -> None:
        """Set the clocks of those who are to be killed in the stage that begins now."""
        for name, after_s in self.moments.get(self.n_begun, {}).items():
            self.timers.append(threading.Timer(after_s, self.devices.kill, (name,)))
            self.timers[-1].start()
        self.n_begun += 1

    def wait(self) -> None:
        """Wait for the last kill."""
        for timer in self.timers:
            timer.join()


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
    from analyst.connection import ClientConfig
    from cli.ask import run_question
    from cli.terminal.output import say

    deployment, names = deploy(stack, folder, n_devices)
    records = random_records(names, seed)
    write_devices(deployment, records)
    devices = DeviceProcesses(deployment, names)
    devices.start()
    say(f"2/3  asking for the sum of {N_HOURS} numbers of each; {n_killed} devices are killed meanwhile")
    question = SumParams(analysis="secure-sum", record=RECORD, length=N_HOURS, largest=LARGEST, stage_s=STAGE_S)
    started_s = time.monotonic()
    kills = RandomKills.draw(devices, n_killed, seed)
    kills.stage_begins()
    config = ClientConfig.load(deployment.client_config)
    answer = run_question(config, question, on_stage=lambda _: kills.stage_begins())
    seconds = time.monotonic() - started_s
    kills.wait()
    say("3/3  comparing with the survivors' records, which only a demo can read")
    survivors = [records[name] for name in answer["survivors"]]
    survivors_sum = [sum(hour) for hour in zip(*survivors, strict=True)]
    killed = {name: moment_s - started_s for name, moment_s in devices.killed_at_s.items()}
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
