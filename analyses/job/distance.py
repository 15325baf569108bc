"""What a job waits for where its members are far apart: flights, bytes, and the seconds that follow from both.

From the plan alone, as a forecast is (`analyses.job.forecast`): flights and bytes are those of `Plan.traffic`, which
tests hold to runs of the real code. Seconds are of the network alone, without anybody's computing:

    flights x round trip / 2  +  max(bytes of the busiest sender / bandwidth,
                                     bytes of the busiest link / BYTES_PER_ROUND_TRIP x round trip)

The second one is the window of a call: a chunk of an array (`transport.messages.frames`) fills it, and waits until it
is read.

Members that are reached by a relay wait as at the sum of the round trips to it, at most twice where it is as far away
as they are from each other.

What a job takes of the machines of its services (`Work`) stands here, too; an analysis that says it has `own_work`.
"""

import os
from dataclasses import asdict, dataclass
from typing import Any

from analyses.job.declared_rows import declared_rows
from analyses.job.job import JobError
from analyses.job.plan import Plan
from mpc.protocol.session import COORDINATOR
from mpc.traffic.walk import Traffic

ROUND_TRIPS_MS = (1, 20, 100)
BANDWIDTHS_MBIT = (1000, 100)

COORDINATOR_FLIGHTS = 8
"""Columns, the plan, the start and the end of a job: each is a call of the coordinator and its answer."""

BYTES_PER_ROUND_TRIP = 448 << 10
"""Bytes of one stream that pass in a round trip, whatever the bandwidth: a chunk of an array
(docs/decisions/049-one-chunk-in-a-round-trip.md)."""

MIB = 1 << 20


@dataclass(frozen=True)
class Work:
    """What a job takes of a service beyond what that takes at rest.

    Attributes:
        rows: with which it is counted, the most that are declared.
        party_bytes: memory of the party that takes most, with the values of its table.
        coordinator_bytes: memory of the coordinator; None where it is not said.
        party_s: processor seconds of the party that takes most, once its table is read, on a machine like the one that
            was measured; None where none was.
        coordinator_s: the same of the coordinator.
    """

    rows: int
    party_bytes: int
    coordinator_bytes: int | None = None
    party_s: float | None = None
    coordinator_s: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return it as lines of text for people."""
        of_party, of_coordinator = (
            ", ".join(
                text
                for text in (
                    None if n_bytes is None else f"{n_bytes / MIB:,.0f} MiB of memory",
                    None if seconds is None else f"{seconds:.2f} processor seconds on a machine like this one",
                )
                if text
            )
            for n_bytes, seconds in ((self.party_bytes, self.party_s), (self.coordinator_bytes, self.coordinator_s))
        )
        return [
            f"a party takes {of_party} with {self.rows:,} rows, the most that are declared",
            f"the coordinator takes {of_coordinator or 'what is not forecast'}",
        ]


class JobTooLargeError(JobError):
    """The job would take more memory of a service than its machine has, or than its operator allows."""

    code = "job-too-large"


def check_memory(service: str, n_bytes: int | None, allowed_mib: int | None, n_columns: int) -> None:
    """Refuse what would take too much memory. It follows from public facts alone, so it tells nothing of a table.

    Args:
        service: name of the party or the coordinator.
        n_bytes: what the job would take of it (`Work`); None where it is not forecast, and then nothing is refused.
        allowed_mib: what it may take; None for all memory of this machine.
        n_columns: columns of the job.

    Raises:
        JobTooLargeError: says how much it would take, how much it may, and what helps.
    """
    allowed = allowed_mib or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    if n_bytes is not None and n_bytes > allowed * MIB:
        raise JobTooLargeError(
            f"inputs: {service} would take about {n_bytes // MIB:,} MiB of memory for {n_columns:,} columns, and may "
            f"take {allowed:,} MiB (job_memory_mib): name fewer columns"
        )


@dataclass(frozen=True)
class Distance:
    """What a job waits for.

    Attributes:
        flights: messages of members that wait for one another, one-way.
        coordinator_flights: messages of the calls with which the coordinator begins and ends the job, besides.
        rows: with which bytes are counted, the most that are declared; None where they do not depend on rows.
        party_bytes: what the party sends that sends the most, to all others together.
        party_bytes_at_fewest_rows: the same with the fewest rows that are declared; None where that is the same.
        coordinator_bytes: what the coordinator sends to all parties together.
        link_bytes: the most that one member sends to another.
        not_known: what is not known beforehand and how it is counted, in words.
    """

    flights: int
    coordinator_flights: int
    rows: int | None
    party_bytes: int
    party_bytes_at_fewest_rows: int | None
    coordinator_bytes: int
    link_bytes: int
    not_known: tuple[str, ...] = ()

    def seconds(self, round_trip_ms: float, bandwidth_mbit: float) -> float:
        """Return the predicted seconds of the network; see the module."""
        waits_s = (self.flights + self.coordinator_flights) * round_trip_ms / 2000
        line_s = 8 * max(self.party_bytes, self.coordinator_bytes) / (bandwidth_mbit * 1e6)
        windows_s = self.link_bytes / BYTES_PER_ROUND_TRIP * round_trip_ms / 1000
        return waits_s + max(line_s, windows_s)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data, with `seconds` at each of the stated networks."""
        networks = [
            {
                "round_trip_ms": ms,
                "bandwidth_mbit": mbit,
                "seconds": self.seconds(ms, mbit),
                "seconds_by_relay": self.seconds(2 * ms, mbit),
            }
            for ms in ROUND_TRIPS_MS
            for mbit in BANDWIDTHS_MBIT
        ]
        return {**asdict(self), "not_known": list(self.not_known), "network_seconds": networks}

    def lines(self) -> list[str]:
        """Return it as lines of text for people."""
        with_rows = "" if self.rows is None else f" with {self.rows:,} rows, the most that are declared"
        fewest = self.party_bytes_at_fewest_rows
        at_fewest = "" if fewest is None else f", and {fewest:,} with the fewest"
        by_coordinator = f"; the coordinator sends {self.coordinator_bytes:,}" if self.coordinator_bytes else ""
        head = " ".join(f"{_speed(mbit):>12}" for mbit in BANDWIDTHS_MBIT)
        rows = [
            f"  {ms:>4} ms     " + " ".join(f"{self.seconds(ms, mbit):>10.2f} s" for mbit in BANDWIDTHS_MBIT)
            for ms in ROUND_TRIPS_MS
        ]
        return [
            f"{self.flights} messages follow one another in turn, {self.coordinator_flights} counting the coordinator",
            f"the busiest party sends {self.party_bytes:,} bytes{with_rows}{at_fewest}{by_coordinator}",
            *(f"not known: {sentence}" for sentence in self.not_known),
            "predicted seconds of the network, without computing:",
            f"  round trip  {head}",
            *rows,
            "by a relay that is as far from all: those of twice the round trip at most",
        ]


def distance_of(plan: Plan) -> Distance | None:
    """Return what a job waits for; None where its analysis does not say what it sends."""
    try:
        declared = declared_rows(plan.job, plan.schemas)
        least, most = max(1, declared.least), max(1, declared.most)
    except JobError:  # rows of such a plan stay where they are, and need not be declared
        least = most = 1
    traffic, fewest = plan.traffic(most), plan.traffic(least)
    if traffic is None or fewest is None:
        return None
    busiest, busiest_at_fewest = _most_of_parties(traffic), _most_of_parties(fewest)
    depends_on_rows = dict(traffic.sent) != dict(fewest.sent)
    return Distance(
        flights=traffic.flights,
        coordinator_flights=COORDINATOR_FLIGHTS,
        rows=most if depends_on_rows else None,
        party_bytes=busiest,
        party_bytes_at_fewest_rows=busiest_at_fewest if depends_on_rows else None,
        coordinator_bytes=traffic.bytes_of(COORDINATOR),
        link_bytes=max(traffic.sent.values(), default=0),
        not_known=tuple(traffic.not_known),
    )


def _most_of_parties(traffic: Traffic) -> int:
    senders = {sender for sender, _ in traffic.sent} - {COORDINATOR}
    return max(map(traffic.bytes_of, senders), default=0)


def _speed(mbit: int) -> str:
    return f"{mbit // 1000} Gbit/s" if mbit >= 1000 else f"{mbit} Mbit/s"
