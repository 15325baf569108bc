"""A device in batches: one vector of sealed shares for each; see `device.questions.answering`."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyses.job.job import JobError
from device.budget import cost_of
from device.questions.answering import QuestionDevice
from device.questions.batch_policy import BatchPolicy, check_keys
from device.refusing import SitsOutError
from device.report import write_batch_report
from dp.cost.job_cost import JobCost
from entropy import KeyStream
from entropy.stream import KEY_BYTES
from mpc.secagg.secret.party_shares import SealedVector, SealingTerms, answer_digest, seal, split, split_proof
from mpc.secagg.vector.encoding import Integers
from mpc.vector_proofs.prover import challenge_of, first_part, second_part
from questions.shares import AskedBatch, BatchQuestion
from service.tls import Credentials
from service.trust.statements import StatementCheck, sign
from transport.batch_codec import BatchAnswer, PartyKey, encode_answer
from transport.refusal import WhyRefused

if TYPE_CHECKING:
    from device.config import DeviceConfig


class SitsBatchOutError(SitsOutError):
    """The device does not answer a batch, because of what an earlier stop left behind."""

    code = "batch-sat-out"


@dataclass(frozen=True, kw_only=True)
class BatchDevice(QuestionDevice[AskedBatch]):
    """The part of a device that answers batches.

    Attributes:
        credentials: its certificate and key.
        policy: its floor.
    """

    kind = "batch"
    store_name = "batches.sqlite"
    forgets = True

    credentials: Credentials
    policy: BatchPolicy

    @classmethod
    def settings(cls, config: "DeviceConfig", credentials: Credentials) -> dict[str, Any] | None:
        """See `QuestionDevice`."""
        policy = config.batch_policy()
        return None if policy is None else {"credentials": credentials, "policy": policy}

    @classmethod
    def read(cls, text: str) -> AskedBatch:
        """See `QuestionDevice`."""
        return AskedBatch.from_json(text)

    def answer_once(self, asked: AskedBatch, keys: Sequence[PartyKey] = ()) -> bytes:
        """See `QuestionDevice`; an answer that was made is sent also where the owner's rules have changed since."""
        found = self.store.find(asked.digest)
        return super().answer_once(asked, keys) if found is None or found.body is None else found.body

    def admit(self, asked: AskedBatch, keys: Sequence[PartyKey]) -> None:
        """See `QuestionDevice`: the parties must vouch for their keys, too."""
        question = asked.question
        self.policy.check(asked)
        check_keys(asked, keys, StatementCheck(self.credentials))
        if question.sum.record not in self.records:
            raise JobError(f"record: {self.name} declares no record {question.sum.record}")
        self.records[question.sum.record].declared.check(question.sum)
        if (cost := self.cost_of(asked)) is not None:
            delta = self.budget.check_delta(question.sum)
            self.policy.check_epsilon(cost.epsilon(delta).epsilon, delta)

    def cost_of(self, asked: AskedBatch) -> JobCost | None:
        """See `QuestionDevice`: that of the worst view, in which parties that may collude tell their noise."""
        noise = asked.question.noise
        return None if noise is None else cost_of(noise)

    def sits_out(self, text: str, why: WhyRefused | None = None) -> SitsOutError:
        """See `QuestionDevice`."""
        return SitsBatchOutError(text, WhyRefused.TROUBLE)

    def make(self, asked: AskedBatch, keys: Sequence[PartyKey]) -> bytes:
        """See `QuestionDevice`: shares of what the record contributes, sealed."""
        question, publics = asked.question, [key.public for key in keys]
        params, group = question.sum, question.group
        contributed, encoded = self.records[params.record].encoded(params, self.entropy)
        terms = SealingTerms(asked.digest, self.name, question.parties)
        if question.claim is None:
            shares = split(group, group.encode(encoded.values), len(publics), self.entropy, question.may_miss)
            vector = seal(terms, shares, publics, self.entropy)
        else:
            vector = self._proven(terms, question, encoded.values, publics)
        digests = [hashlib.sha256(one).digest() for one in vector.sealed]
        signed = sign(self.credentials, answer_digest(terms, vector.ephemeral_public, digests))
        name = self.charge_of(asked.digest)
        standing = self.budget.standing
        self.report(lambda folder: write_batch_report(folder, name, asked, contributed, encoded, standing()))
        return encode_answer(BatchAnswer(vector, signed))

    def _proven(
        self, terms: SealingTerms, question: BatchQuestion, integers: Integers, publics: Sequence[bytes]
    ) -> SealedVector:
        """Return shares of integers, and of a proof that they keep their bounds, sealed; of any there is one."""
        claim, group = question.claim, question.group
        assert claim is not None
        first = first_part(claim, integers, KeyStream(self.entropy.read(KEY_BYTES)))
        shares = split(group, first, len(publics), self.entropy, question.may_miss)
        seeds = shares[: len(publics) - 1 - question.may_miss]

        def prove(challenge: bytes) -> tuple[bytes, ...]:
            second = second_part(claim, first, challenge_of(claim, KeyStream(challenge)))
            return split_proof(group, second, seeds, question.may_miss)

        return seal(terms, shares, publics, self.entropy, prove)
