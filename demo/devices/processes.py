"""Devices of a demo as real processes, of which some are killed at random moments."""

import random
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from demo.local_deployment import LocalDeployment

N_STAGES = 5
"""Stages of a round of a masked sum."""
KILL_WITHIN_S = 0.1
"""Seconds after the beginning of a stage within which a device is killed."""


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
            self.launch(name)
        for name in self.names:
            self.deployment.wait_until_logged(name, "member is ready")

    def launch(self, name: str) -> None:
        """Start a device, also again."""
        self.deployment.launch(name, "cli.main", "device", "run", "--config", str(self.deployment.config_path(name)))

    def kill(self, name: str) -> None:
        """End a device as a power cut would."""
        self.deployment.send_signal(name, signal.SIGKILL)
        self.killed_at_s[name] = time.monotonic()


@dataclass
class RandomKills:
    """Kills devices at random moments of masked rounds: each in a random stage, a random time after it began.

    Attributes:
        devices: devices of which some are killed.
        moments: stage, counted from 0, to devices and the seconds after its beginning.
    """

    devices: DeviceProcesses
    moments: Mapping[int, Mapping[str, float]]
    timers: list[threading.Timer] = field(default_factory=list, init=False)
    n_begun: int = field(default=0, init=False)

    @classmethod
    def draw(cls, devices: DeviceProcesses, n_killed: int, seed: int, stages: range = range(N_STAGES)) -> Self:
        """Choose devices and moments, in these stages."""
        source = random.Random(seed)  # noqa: S311 -- an accident, not a secret
        moments: dict[int, dict[str, float]] = {}
        for name in source.sample(devices.names, n_killed):
            stage = source.randrange(stages.start, stages.stop)
            moments.setdefault(stage, {})[name] = source.uniform(0.0, KILL_WITHIN_S)
        return cls(devices, moments)

    def ask(self, question: Any) -> tuple[dict[str, Any], float, dict[str, float]]:
        """Ask a question, and kill meanwhile.

        Returns:
            The answer, the seconds that it took, and device to the moment of its kill, in seconds after the question.
        """
        from analyst.connection import ClientConfig
        from cli.ask import run_question

        config = ClientConfig.load(self.devices.deployment.client_config)
        started_s = time.monotonic()
        self.stage_begins()
        answer = run_question(config, question, on_stage=lambda _: self.stage_begins())
        seconds = time.monotonic() - started_s
        self.wait()
        return answer, seconds, {name: at_s - started_s for name, at_s in self.devices.killed_at_s.items()}

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
