"""Services that are far apart: a relay between each two of them delivers everything 50 ms later.

What is asserted is the chain of messages that the relays record, not seconds.
"""

import time
from dataclasses import dataclass, field

import pytest
from federation import Analyst, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment

from analyses.job.distance import COORDINATOR_FLIGHTS
from bench.jobs.delaying_relay import DelayingRelays
from demo.local_deployment import COORDINATOR_NAME

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((100, 2), seed) for seed, name in enumerate(PARTIES)}
DELAY_S = 0.05

FLIGHTS = 7
"""Among the members of the job, the gate included (`tests/protocols/test_flights.py`)."""


@dataclass
class FarDeployment(ForkedDeployment):
    """Its services reach one another through relays, which stand before the first of them starts."""

    delays: DelayingRelays = field(kw_only=True)

    def write_files(self) -> None:
        super().write_files()
        self.delays.put_between(self)


@pytest.fixture(scope="module")
def far_apart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("far")
    (folder / "run").mkdir()
    with (
        DelayingRelays(DELAY_S) as relays,
        FarDeployment(folder / "run", tables_of(VALUES, folder), delays=relays) as deployment,
    ):
        yield deployment


def test_a_small_job_of_services_far_apart_is_done_and_its_chain_of_messages_is_short(far_apart):
    """The first job opens the connections. On a slow machine notes of progress lengthen the chain: hence the factor."""
    analyst, chain = Analyst(far_apart), far_apart.delays.chain
    result_of(analyst.run(pca_job(PARTIES)))
    before, started_s = chain.depth, time.monotonic()
    result_of(analyst.run(pca_job(PARTIES)))
    seconds, links = time.monotonic() - started_s, chain.depth - before
    assert FLIGHTS <= links <= 5 * (FLIGHTS + COORDINATOR_FLIGHTS)
    # Each link takes a delay at least, but for the first, which may have been on its way when the job began.
    assert seconds >= (links - 1) * DELAY_S


def test_every_two_services_talk_through_a_relay(far_apart):
    services = (*PARTIES, COORDINATOR_NAME)
    pairs = [(a, b) for a in services for b in services if a != b]
    assert not [(a, b) for a, b in pairs if f'"{far_apart.addresses[b]}"' in far_apart.config_path(a).read_text()]
    result_of(Analyst(far_apart).run(pca_job(PARTIES)))
    assert {pair for pair, n_bytes in far_apart.delays.chain.n_bytes.items() if n_bytes} == set(pairs)
