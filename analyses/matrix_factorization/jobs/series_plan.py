"""The plan of a matrix factorization as a job, as far as both forms agree: a series of masked sums, and a model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from analyses.job.plan import Plan
from analyses.job.ratings import RatingsSchema
from analyses.matrix_factorization.broadcast import PUBLISHED_STAGE, RECEIVED_ECHO_BYTES, ModelFormat
from analyses.matrix_factorization.jobs.factor_params import FactorJobParams, ratings_of, topology_of
from analyses.rows.traffic import traffic_of
from analyses.sums.noise import SumNoise
from analyses.sums.round import configure
from analyses.sums.sessions.session_series import ANNOUNCEMENT_BYTES, SessionSeries
from mpc.protocol.session import COORDINATOR, Session
from mpc.secagg.config import RoundConfig
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.traffic.shares import WORD_BYTES
from mpc.traffic.sums import ATTEMPTS_ARE_NOT_KNOWN, attempt, exchange_identities, planned_identities
from mpc.traffic.walk import Sent, Traffic, pairwise
from mpc.transcript import RoundId

Integers = NDArray[np.int64]

RoundSum = tuple[VectorEncoding, SumNoise | None, RingGroup]
"""How a party's vector of a round is encoded, the noise of the sum, and the ring that holds it."""


class SeriesPlan(Plan):
    """What all participants agree on before a matrix factorization of either form.

    Attributes:
        params: validated parameters.
    """

    params: FactorJobParams

    @property
    def is_vertical(self) -> bool:
        """Whether parties hold items of the same users."""
        return self.params.setting == "vertical"

    @property
    def declared(self) -> tuple[RatingsSchema, ...]:
        """What each party declares of its ratings, in the order of the members."""
        return tuple(ratings_of(schema) for schema in self.schemas)

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of a rating."""
        return self.declared[0].lower, self.declared[0].upper

    @property
    def centre(self) -> float:
        """What is taken off every rating."""
        raise NotImplementedError

    @property
    def deviation_bounds(self) -> tuple[float, float]:
        """Bounds of a rating less the centre."""
        return self.bounds[0] - self.centre, self.bounds[1] - self.centre

    @property
    def stages_after(self) -> frozenset[str]:
        """Stages of what parties send the coordinator after the series: the items that they publish."""
        return frozenset({PUBLISHED_STAGE} if self.params.publish_items else ())

    def publishing(self, n_opened: int, survivors: Sequence[int]) -> dict[int, ModelFormat]:
        """Return the parties that publish the model of their items at the end, and how that crosses the network.

        They are those whose vectors are in the last planned sum: their model is made of all noise that is paid for, and
        everybody knows who they are. Where the series ended early there are none.

        Args:
            n_opened: how many sums were opened.
            survivors: members whose vectors are in the last one.
        """
        if not self.params.publish_items or n_opened < self.n_sums:
            return {}
        how, by_name = self.broadcast, {schema.party: ratings_of(schema) for schema in self.schemas}
        return {party: replace(how, n_rows=by_name[self.job.compute_parties[party - 1]].items) for party in survivors}

    @property
    def n_sums(self) -> int:
        """How many masked sums the series has."""
        raise NotImplementedError

    @property
    def broadcast(self) -> ModelFormat:
        """The format of the models: of items, or of users in the vertical setting."""
        raise NotImplementedError

    @property
    def released_lengths(self) -> tuple[int, ...]:
        """Length of the sum that members receive at the end, by the number of opened rounds less 1."""
        raise NotImplementedError

    def round_sum(self, number: int) -> RoundSum:
        """Return what the masked sum of a round is made for.

        Raises:
            ProtocolError: no ring holds it.
        """
        raise NotImplementedError

    def within_range(self, number: int, values: Integers) -> Integers:
        """Clip a party's vector of a round to what its declared users and items can come to."""
        largest = self.round_sum(number)[0].largest_element
        return np.clip(values, -largest, largest)

    def config_of(self, names: Mapping[int, str], round_id: RoundId, identities: Mapping[int, bytes]) -> RoundConfig:
        """Return the configuration of an attempt, the same for all participants."""
        encoding, noise, ring = self.round_sum(round_id.number)
        members = [(names[i], identities[i]) for i in range(1, self.n_parties + 1)]
        return configure(round_id, members, topology_of(self.job), ring, self.job.analysis, encoding, noise)

    def traffic(self, n_rows: int) -> Traffic:
        """See `Plan`: all rounds, each opened at the first attempt, and the model; ratings are never joined."""
        traffic, parties = traffic_of(self), self.compute_members
        identities = planned_identities(self.n_parties)
        names = {party: f"party {party}" for party in parties}

        def announced(n_bytes: int) -> None:
            traffic.step(Sent(COORDINATOR, party, n_bytes) for party in parties)

        exchange_identities(traffic, self.n_parties)

        def round_of(number: int) -> None:
            announced(ANNOUNCEMENT_BYTES + (self.broadcast.n_bytes if number else 0))
            attempt(traffic, self.config_of(names, RoundId("planned", number, 0), identities))

        round_of(0)
        for _, alike in groupby(range(1, self.n_sums), key=self._sizes_of_round):
            numbers = list(alike)
            traffic.repeat(len(numbers), lambda number=numbers[0]: round_of(number))  # type: ignore[misc]
        n_released = WORD_BYTES * (1 + self.n_parties + self.released_lengths[-1]) + self.broadcast.n_bytes
        announced(ANNOUNCEMENT_BYTES + n_released)
        published = self.publishing(self.n_sums, parties)
        traffic.step(Sent(party, COORDINATOR, how.n_bytes) for party, how in published.items())
        for n_bytes in RECEIVED_ECHO_BYTES:
            traffic.step(pairwise(parties, n_bytes))
        traffic.end()
        traffic.not_known.append(ATTEMPTS_ARE_NOT_KNOWN)
        return traffic

    def _sizes_of_round(self, number: int) -> tuple[int, int]:
        encoding, _, ring = self.round_sum(number)
        return encoding.n_elements, ring.bits

    def series(self, session: Session) -> SessionSeries:
        """Return what all participants agree on before the first round."""
        return SessionSeries(
            self.n_parties,
            self.n_sums,
            self.params.attempts,
            lambda round_id, identities: self.config_of(session.names, round_id, identities),
            max_input_bytes=self.broadcast.n_bytes,
        )
