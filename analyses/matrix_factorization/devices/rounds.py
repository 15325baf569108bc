"""What is public about the rounds of a question to devices, whatever its form: each member computes it for itself."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from analyses.matrix_factorization.broadcast import ModelFormat
from analyses.matrix_factorization.devices.question import LABEL, FactorQuestion
from analyses.matrix_factorization.model import FactorModel
from analyses.matrix_factorization.posterior import Regression
from analyses.sums.noise import SumNoise
from analyses.sums.round import ring_for
from dp.cost.events.event import PrivacyEvent
from dp.cost.job_cost import JobCost
from dp.cost.views import MEMBER_UNIT, View
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import Topology
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import encode_fields

Integers = NDArray[np.int64]


class Progress(Protocol):
    """The model on its way from round to round, at the coordinator."""

    @property
    def model(self) -> FactorModel | None:
        """What is broadcast before the next round; None before round 0."""

    def improve(self, opened: Integers) -> None:
        """Take in the sum of the next round, noise in excess removed."""

    def released(self) -> FactorModel:
        """Return what the rounds so far came to; there is at least one."""

    def regression(self) -> Regression | None:
        """Return how public features move offsets, after round 0; None in the form sgd."""


@dataclass(frozen=True)
class DeviceRounds(ABC):
    """All that is public about the rounds of a question, for a number of members.

    Attributes:
        question: the question that was asked.
        topology: who shares with whom, in every round.
    """

    question: FactorQuestion
    topology: Topology

    @property
    @abstractmethod
    def n_rounds(self) -> int:
        """How many masked sums there are."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """P."""

    @property
    @abstractmethod
    def broadcast(self) -> ModelFormat:
        """How a model crosses the network."""

    @property
    def largest(self) -> int | None:
        """R, of squared norms of embeddings; None where a user is solved without such a bound."""
        return None

    @property
    def n_features(self) -> int:
        """How many public features an item has; 0 where the question states none."""
        return 0

    @abstractmethod
    def begin(self) -> Progress:
        """Return the model before round 0."""

    @abstractmethod
    def noise(self, number: int) -> SumNoise:
        """Return the noise of a round."""

    @abstractmethod
    def encoding(self, number: int) -> VectorEncoding:
        """Return how large a member's vector may be in a round."""

    def ring(self, number: int) -> RingGroup:
        """Return the ring of a round.

        Raises:
            EncodingOverflowError: no ring holds the sum.
        """
        return ring_for(self.topology.n_members, self.encoding(number), self.noise(number))

    # -- what is broadcast ---------------------------------------------------------------------------------------------

    def public_input(self, number: int, model: FactorModel | None) -> bytes:
        """Return what all members of a round start from: the question, and the model; none before round 0."""
        written = b"" if model is None else self.broadcast.write(number, model)
        return encode_fields(LABEL, self.question.canonical_json(), written)

    def model_before(self, number: int, written: bytes) -> FactorModel | None:
        """Return the model that a round starts from, checked; None for round 0.

        Raises:
            PeerViolationError: it is of another round, of another shape, or none that rounds lead to. Shows no value.
        """
        stage = f"round {number}"
        if number > 0:
            return self.read(written, number, stage)
        if written:
            raise PeerViolationError(COORDINATOR, stage, "broadcast offsets and vectors before there are any")
        return None

    def read(self, written: bytes, number: int, stage: str) -> FactorModel:
        """Return a model that the coordinator sent, checked.

        Args:
            written: the bytes that came.
            number: number of the round that starts from it, or of rounds that led to it.
            stage: when.

        Raises:
            PeerViolationError: see `model_before`.
        """
        return self.broadcast.read(written, number, stage)

    def write_outcome(self, number: int, model: FactorModel, regression: Regression | None) -> bytes:
        """Return what members are told at the end: the model, and how features move offsets where there are some."""
        written = self.broadcast.write(number, model)
        if not self.n_features:
            return written
        assert regression is not None
        return written + np.array([regression.least_count, *regression.weights], dtype="<f8").tobytes()

    def read_outcome(self, outcome: bytes, stage: str) -> tuple[FactorModel, Regression | None]:
        """Return the model and the regression that the coordinator sent at the end, checked.

        Raises:
            PeerViolationError: they are of another shape, off the lattice, or not finite. Shows no value.
        """
        n_more = 8 * (3 + self.n_features) if self.n_features else 0
        split = len(outcome) - n_more
        model = self.read(outcome[: max(0, split)], min(int.from_bytes(outcome[:8], "little"), self.n_rounds), stage)
        if not n_more:
            return model, None
        least_count, *weights = np.frombuffer(outcome[split:], dtype="<f8").tolist()
        if not (all(map(math.isfinite, weights)) and 0 < least_count < math.inf):
            raise PeerViolationError(COORDINATOR, stage, "sent weights of features that are not finite")
        return model, Regression(np.array(weights), least_count)

    # -- what it costs -------------------------------------------------------------------------------------------------

    @abstractmethod
    def events(self, view: View) -> tuple[PrivacyEvent, ...]:
        """Return what all rounds cost together."""

    @abstractmethod
    def charges(self, number: int, n_before: int) -> Mapping[int, JobCost]:
        """Return what a device holds before it enters a round, for this round and all that follow.

        Args:
            number: the round's number.
            n_before: how many vectors the device has sent in this series.

        Returns:
            The number of each charge, counted from 0, to its cost.
        """

    @abstractmethod
    def charge_of(self, number: int, n_before: int) -> int | None:
        """Return the number of the charge that is committed before a vector leaves; None where all of it is paid.

        Arguments as of `charges`.
        """

    def cost_of_all(self) -> JobCost:
        """Return what all rounds cost a device that is in all of them, each once."""
        return self._cost_of_all

    @cached_property
    def _cost_of_all(self) -> JobCost:
        return self.cost(self.events)  # held, as it knows its epsilon once that was asked for: before every round

    def cost(self, events: Callable[[View], tuple[PrivacyEvent, ...]]) -> JobCost:
        """Return what releases cost a member, by what they are in a view."""
        return JobCost.of(events, MEMBER_UNIT, self.topology.n_corrupt)

    def privacy_report(self) -> dict[str, Any]:
        """Return what all rounds cost together, with as few survivors in each as may be. Public."""
        return deepcopy(self._report)

    @cached_property
    def _report(self) -> dict[str, Any]:
        return self._privacy_report()  # a device writes it into its report of every round

    @abstractmethod
    def _privacy_report(self) -> dict[str, Any]:
        """Return what `privacy_report` does."""
