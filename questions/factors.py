"""The coordinator's side of a question to devices: from each opened sum to the next model, and the answer."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyses.matrix_factorization.devices.planned import factor_round_config, rounds_of
from analyses.matrix_factorization.devices.question import NAME, FactorQuestion
from analyses.matrix_factorization.devices.rounds import DeviceRounds
from analyses.matrix_factorization.jobs.earlier import with_digest
from analyses.sums.round import members_of, participation
from mpc.secagg.config import RoundConfig
from mpc.secagg.opened_sum import OpenedSum
from mpc.transcript import RoundId
from questions.rounds import AskedRounds


class AskedFactors(AskedRounds):
    """A matrix factorization that is being asked; see `questions.rounds.AskedRounds`.

    Args:
        question: the analyst's question.
        session: a text that never repeats.
        identities: Ed25519 key of every member that the coordinator knows, by name.

    Raises:
        JobError: the question cannot be answered; the text names the field.
    """

    def __init__(self, question: FactorQuestion, session: str, identities: Mapping[str, bytes]) -> None:
        self._question, self._session = question, session
        self._members = members_of(question.members, identities)
        self._rounds = rounds_of(question, len(self._members))
        self._progress = self._rounds.begin()
        self._participation: list[dict[str, Any]] = []
        self.analysis, self.stage_s, self.grace_s = NAME, question.stage_s, question.grace_s
        self.attempts = question.attempts
        self.n_rounds = self._rounds.n_rounds
        self.config(0, 0)

    @property
    def rounds(self) -> DeviceRounds:
        """All that is public about the rounds."""
        return self._rounds

    def config(self, number: int, attempt: int) -> RoundConfig:
        """See `AskedRounds`."""
        return factor_round_config(self._rounds, RoundId(self._session, number, attempt), self._members)

    def public_input(self, number: int) -> bytes:
        """See `AskedRounds`: the question, and the model that the rounds before have led to."""
        return self._rounds.public_input(number, self._progress.model)

    def take(self, config: RoundConfig, opened: OpenedSum) -> bytes:
        """See `AskedRounds`."""
        kept = self._rounds.noise(config.round_id.number).remove_surplus(opened)
        self._progress.improve(np.asarray(kept.integers(), dtype=np.int64))
        self._participation.append(participation(opened, config))
        self.n_opened += 1
        return self._outcome() if self.is_over else b""

    def end_early(self, reason: str) -> bytes:
        """See `AskedRounds`: the last opened model is the result."""
        self.ended_early_because = reason
        return self._outcome()

    def answer(self) -> dict[str, Any]:
        """Return the model on its lattice, who was in which round, and the privacy cost of all rounds."""
        question, rounds, model = self._question, self._rounds, self._progress.released()
        found = {
            "analysis": NAME,
            "setting": "local",
            "form": question.form,
            "of": "items",
            "record": question.record,
            "items_digest": question.items_digest,
            "offsets": model.offsets_q.tolist(),
            "vectors": model.vectors_q.tolist(),
            "units": model.units,
            "centre": question.middle,
            "bounds": list(question.bounds),
            "rank": rounds.rank,
            **({} if rounds.largest is None else {"largest": rounds.largest}),
            "rounds_planned": self.n_rounds,
            "rounds": self._participation,
            "ended_early_because": self.ended_early_because,
            "privacy": rounds.privacy_report(),
        }
        if question.features is not None and (regression := self._progress.regression()) is not None:
            found |= {"features_digest": question.features_digest, "regression": regression.as_data()}
        return found if question.form == "sgd" else with_digest(found)

    def _outcome(self) -> bytes:
        progress = self._progress
        return self._rounds.write_outcome(self.n_opened, progress.released(), progress.regression())
