"""A deployment whose coordinator kills itself at a moment of a job, and is started again."""

import dataclasses
import time
from contextlib import suppress

from federation import Analyst
from forked_services import ForkedDeployment

from demo.local_deployment import COORDINATOR_NAME
from service.errors import ServiceError

OR_LATER = {
    "telco in multiply": "telco in multiply or before OPENING",
    "telco in masked input": "telco in masked input or telco in sign survivors or telco in unmask or before OPENING",
}
"""Where a machine is busy, a coordinator may hear of a party's next stage only."""


@dataclasses.dataclass
class DyingDeployment(ForkedDeployment):
    """Its coordinator dies where it is told to."""

    def launch(self, name, module, *arguments):
        super().launch(name, "dying_coordinator" if name == COORDINATOR_NAME else module, *arguments)

    def let_it_die(self, moment):
        (self.folder / "dies-at").write_text(OR_LATER.get(moment, moment))

    def until_dead(self, job_id):
        """Wait until the coordinator has died, before the job has ended otherwise."""
        while self.processes[COORDINATOR_NAME].poll() is None:
            with suppress(ServiceError):
                view = Analyst(self).show(job_id)
                assert view.state not in ("FAILED", "CANCELLED"), view.reason
                assert view.state != "DONE" or not (self.folder / "dies-at").read_text()
            time.sleep(0.02)

    def restart(self, job_id):
        """Start the coordinator again once it has died."""
        self.until_dead(job_id)
        self.start(COORDINATOR_NAME)
        self.wait_until_ready(COORDINATOR_NAME)
