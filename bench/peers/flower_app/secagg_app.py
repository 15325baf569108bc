"""One round of Flower's SecAgg+ workflow: the app that `bench/sums/secagg.py --peer flower` runs beside ours.

It runs in an environment of its own (`bench/peers/flower_secagg.py`), so it imports nothing of this repository. Each
client brings a vector of whole numbers. The clock runs around the workflow alone, when all nodes are connected and the
server's app has started.

    python secagg_app.py --members 10 --elements 100000

runs the same workflow and the same clients in one process: messages are copied in memory, nothing is encoded for a
wire and no process is started, so that this is less than Flower can take anywhere. It prints one JSON object.
"""

import argparse
import json
import time
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import arrayrecord_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_PARAMS_RECORD
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity

LARGEST = 1000
REQUIRED_FRACTION = 0.6
"""Fraction of the members that must remain: the threshold of Flower's secret sharing."""


def values_of(number: int, n_elements: int) -> np.ndarray:
    """Return a member's vector, the same as in `bench.sums.secagg`."""
    return np.random.default_rng(number).integers(-LARGEST, LARGEST + 1, n_elements).astype(np.float64)


class Member(NumPyClient):
    """Brings its vector."""

    def __init__(self, number: int, n_elements: int) -> None:
        self.values = values_of(number, n_elements)

    def fit(self, parameters: Any, config: Any) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        """Return the vector, with weight 1."""
        return [self.values], 1, {}


def client_fn(context: Context) -> Any:
    """Make the client of one node."""
    return Member(int(context.node_config["member"]), int(context.run_config["elements"])).to_client()


class TimedRound:
    """The workflow of one round, and how long it took."""

    def __init__(self, n_members: int) -> None:
        required = round(REQUIRED_FRACTION * n_members)
        self.workflow = SecAggPlusWorkflow(n_members, required, clipping_range=float(LARGEST), max_weight=1.0)
        self.seconds = 0.0

    def __call__(self, grid: Grid, context: Any) -> None:
        """Run it."""
        started_s = time.perf_counter()
        self.workflow(grid, context)
        self.seconds = time.perf_counter() - started_s


def run_round(grid: Grid, context: Context, n_members: int, n_elements: int) -> dict[str, float]:
    """Wait for all nodes, run one round, compare the mean with the exact one."""
    while len(list(grid.get_node_ids())) < n_members:
        time.sleep(0.2)
    strategy = FedAvg(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        min_fit_clients=n_members,
        min_available_clients=n_members,
        initial_parameters=ndarrays_to_parameters([np.zeros(n_elements)]),
    )
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=1), strategy=strategy)
    timed = TimedRound(n_members)
    DefaultWorkflow(fit_workflow=timed)(grid, legacy)
    record = legacy.state.array_records[MAIN_PARAMS_RECORD]
    mean = parameters_to_ndarrays(arrayrecord_to_parameters(record, True))[0]
    exact = sum(values_of(number, n_elements) for number in range(1, n_members + 1))
    return {"seconds": timed.seconds, "largest_error": float(np.abs(mean * n_members - exact).max())}


client = ClientApp(client_fn=client_fn, mods=[secaggplus_mod])
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the round on a SuperLink and leave its report where the runner looks for it."""
    report = run_round(grid, context, int(context.run_config["members"]), int(context.run_config["elements"]))
    path = Path(str(context.run_config["report"]))
    path.with_suffix(".part").write_text(json.dumps(report))
    path.with_suffix(".part").rename(path)


class GridInMemory(Grid):
    """All nodes in this process, one after another."""

    def __init__(self, n_members: int, n_elements: int) -> None:
        self.contexts = {
            1000 + number: Context(
                run_id=1,
                node_id=1000 + number,
                node_config={"member": number},
                state=RecordDict(),
                run_config={"elements": n_elements},
                series_id=1,
            )
            for number in range(1, n_members + 1)
        }

    def get_node_ids(self) -> Iterable[int]:
        """Return all nodes."""
        return list(self.contexts)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Let each node answer at once."""
        return [client(deepcopy(message), self.contexts[message.metadata.dst_node_id]) for message in messages]

    def set_run(self, run: Any) -> None:
        """Not needed."""

    @property
    def run(self) -> Any:
        """Only its number is asked for."""
        return SimpleNamespace(run_id=1)

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Not needed."""
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not needed."""
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not needed."""
        raise NotImplementedError


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, required=True)
    parser.add_argument("--elements", type=int, required=True)
    options = parser.parse_args()
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    own = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={}, series_id=1)
    grid_ = GridInMemory(options.members, options.elements)
    print(json.dumps(run_round(grid_, own, options.members, options.elements)))
