"""A federation with two coordinators of one identity and one database.

They are behind one address that a test moves, or members know the addresses of both.
"""

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from deadlines import GENEROUS_S, wait_until
from dying_coordinator import STOP
from forked_services import ForkedDeployment
from relays import Relay

from demo.local_deployment import COORDINATOR_NAME
from demo.loopback import loopback_addresses

NAMES = ("coordinator-1", "coordinator-2")
LEASE_S = 4.0
"""Renewed five times as often. Where a machine is so slow that a leader loses it, the other one goes on."""


@dataclass
class TwoCoordinators(ForkedDeployment):
    """Attributes: url of the database."""

    url: str = field(kw_only=True)
    relay: Relay | None = field(default=None, init=False)

    def write_files(self):
        super().write_files()
        (self.folder / "dies-at").touch()
        self.addresses |= loopback_addresses(NAMES)
        text = self.config_path(COORDINATOR_NAME).read_text()
        for name in NAMES:
            own = re.sub("^listen = .*", f'listen = "{self.addresses[name]}"', text, flags=re.MULTILINE)
            place = f'store = "{self.url}"\nsurvey_store = "{name}.sqlite"\nlease_s = {LEASE_S}\ninstance = "{name}"'
            own = re.sub("^store = .*", place, own, flags=re.MULTILINE)
            self.config_path(name).write_text(own)

    def start(self, name):
        if name in NAMES:
            command = ("coordinator", "serve", "--config", str(self.config_path(name)))
            self.launch(name, "dying_coordinator", *command)
        elif name == COORDINATOR_NAME:
            for one in NAMES:
                self.start(one)
                self.wait_until_ready(one)
            self.lead_address()
        else:
            super().start(name)

    def lead_address(self):
        """Lead the common address to whoever leads."""
        self.relay = Relay(self.addresses[COORDINATOR_NAME], self.addresses[self.leader()])

    def wait_until_ready(self, name, *timeout_s):
        if name != COORDINATOR_NAME:  # whose address is the relay's
            super().wait_until_ready(name, *timeout_s)

    def __exit__(self, *error):
        super().__exit__(*error)
        if self.relay is not None:
            self.relay.close()

    def execute(self, statement, *values):
        with psycopg.connect(self.url, autocommit=True) as database:
            answer = database.execute(statement, values)
            return answer.fetchall() if answer.description else []

    def leader(self):
        """Return who leads, once somebody does."""
        query = "SELECT holder FROM coordinator_leader WHERE lapses_at > clock_timestamp()"
        return wait_until(lambda: self.execute(query))[0][0]

    def stopped(self):
        """Return the coordinator that a signal has stopped: on a slow machine not always the one that led before."""
        states = {n: Path(f"/proc/{self.processes[n].pid}/stat").read_text().rpartition(")")[2][1] for n in NAMES}
        (name,) = (name for name, state in states.items() if state == "T")
        return name

    def end_at(self, moment, *, stop=False):
        """Let whoever leads die at a moment of the next job, or be stopped."""
        (self.folder / "dies-at").write_text(STOP * stop + moment)

    def until_ended(self, name, job_id):
        """Wait until the moment has come, before the job has ended otherwise."""
        path = self.folder / "dies-at"
        while path.read_text():
            ((state, reason),) = self.job(job_id)
            assert not path.read_text() or state not in ("FAILED", "CANCELLED", "DONE"), reason
            time.sleep(0.02)

    def job(self, job_id):
        """Return state and reason of a job as the database has them: a stopped coordinator answers nobody."""
        return self.execute("SELECT state, reason FROM coordinator_jobs WHERE job_id = %s", job_id)

    def until_taken_over(self, before):
        """Wait until another coordinator leads than before, and return its name."""
        wait_until(lambda: self.leader() != before)
        after = self.leader()
        wait_until(lambda: '"event": "coordinator is ready"' in self.log_path(after).read_text())
        return after

    def move_address(self, before):
        """Wait until another coordinator leads than before, and lead the common address to it; return its name."""
        after = self.until_taken_over(before)
        self.relay.lead_to(self.addresses[after])
        return after

    def restart(self, name):
        """Start a coordinator that has ended; it stands by."""
        self.processes[name].wait(GENEROUS_S)
        self.log_path(name).rename(self.folder / f"{name}-{time.monotonic_ns()}.log")
        self.start(name)
        self.wait_until_ready(name)


@dataclass
class TwoAddresses(TwoCoordinators):
    """Nothing listens at a common address: all members know both. Each coordinator has a page.

    Attributes:
        page_at: name of a coordinator to the address of its page.
    """

    page_at: dict[str, str] = field(default_factory=dict, init=False)

    def write_files(self):
        super().write_files()
        self.page_at = loopback_addresses(NAMES)
        for name, address in self.page_at.items():
            path = self.config_path(name)
            text = re.sub("^survey_store = .*\n", "", path.read_text(), flags=re.MULTILINE)  # in the database, too
            path.write_text(f'{text}\n[page]\nlisten = "{address}"\n')
        for path in (*map(self.config_path, self.tables), self.client_config):
            self.name_both(path)

    def name_both(self, path):
        """Let a member's configuration name both addresses, the one that stands by first as often as not."""
        common = f'"address" = "{self.addresses[COORDINATOR_NAME]}"'
        both = ", ".join(f'"{self.addresses[name]}"' for name in NAMES)
        text = path.read_text()
        assert common in text
        path.write_text(text.replace(common, f'"address" = [{both}]'))

    def lead_address(self):
        pass
