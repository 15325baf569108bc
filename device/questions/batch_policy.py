"""Which batches a device's owner allows: of whom, with how many parties that may collude, in how large a crowd."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyses.job.job import LEAST_EPSILON
from device.refusing import SitsOutError
from mpc.secagg.secret.keys import is_usable_public_key
from questions.shares import AskedBatch
from service.errors import UnauthenticatedError
from service.identity import Identity, Role
from service.trust.statements import StatementCheck
from transport.batch_codec import PartyKey
from transport.refusal import WhyRefused


class BatchOutOfPolicyError(SitsOutError):
    """The owner's configuration rules a batch out. Nothing of the record has been read."""

    code = "batch-out-of-policy"

    def __init__(self, text: str) -> None:
        super().__init__(text, WhyRefused.POLICY)


class PartyKeyError(SitsOutError):
    """A batch comes with a key that none of its parties vouches for: nothing is sealed for it."""

    code = "party-key-refused"

    def __init__(self, text: str) -> None:
        super().__init__(text, WhyRefused.TROUBLE)


@dataclass(frozen=True)
class BatchPolicy:
    """The floor of a device.

    Attributes:
        coordinator: the identity of the one coordinator whose batches it answers.
        parties: names of the parties that it trusts not to collude all together; a batch has no other ones.
        colluding: number of a batch's parties that may collude: a batch that withstands fewer is not answered.
        smallest_cohort: a batch that may be opened for fewer devices is not answered.
        largest_elements: longer vectors are not answered.
        exact_sums: whether batches without noise are answered.
        proofs: whether only batches are answered whose devices prove that their vectors keep their bounds.
        may_miss: a batch that opens without more of its parties is not answered.
        largest_epsilon: largest epsilon of one batch, in its worst view, at the budget's delta; None: the budget's.
        least_epsilon: least epsilon of a noisy batch, at its own delta.
    """

    coordinator: str
    parties: frozenset[str]
    colluding: int
    smallest_cohort: int
    largest_elements: int
    exact_sums: bool
    largest_epsilon: float | None
    least_epsilon: float = LEAST_EPSILON
    proofs: bool = False
    may_miss: int = 0

    def check(self, asked: AskedBatch) -> None:
        """Refuse a batch that the owner rules out, by its question alone.

        Raises:
            BatchOutOfPolicyError: says why.
        """
        question = asked.question
        if asked.asker != self.coordinator:
            raise BatchOutOfPolicyError(f"the batch is that of {asked.asker}, which is not this device's coordinator")
        if strangers := sorted(set(question.parties) - self.parties):
            raise BatchOutOfPolicyError(
                f"{', '.join(strangers)}: not among the parties of this device (policy.parties)"
            )
        if question.colluding < self.colluding:
            raise BatchOutOfPolicyError(
                f"the batch withstands {question.colluding} colluding parties; at least {self.colluding} are asked for"
            )
        if question.smallest_cohort < self.smallest_cohort:
            raise BatchOutOfPolicyError(
                f"the batch may be opened for {question.smallest_cohort} devices; at least {self.smallest_cohort} here"
            )
        if question.n_elements > self.largest_elements:
            raise BatchOutOfPolicyError(
                f"a vector has {question.n_elements} elements; at most {self.largest_elements} here"
            )
        if question.sum.privacy is None and not self.exact_sums:
            raise BatchOutOfPolicyError("an exact sum is asked for; this device takes part in noisy ones only")
        if self.proofs and not question.proofs:
            raise BatchOutOfPolicyError("devices prove nothing in this batch (policy.parties.proofs)")
        if question.may_miss > self.may_miss:
            raise BatchOutOfPolicyError(
                f"the batch opens without {question.may_miss} of its parties; at most {self.may_miss} here "
                "(policy.parties.may_miss)"
            )
        if (target := question.sum.privacy) is not None and target.epsilon < self.least_epsilon:
            raise BatchOutOfPolicyError(
                f"epsilon is {target.epsilon:.3g}; at least {self.least_epsilon:g} here (policy.least_epsilon)"
            )

    def check_epsilon(self, epsilon: float, delta: float) -> None:
        """Refuse a batch that costs more than the owner allows for one.

        Raises:
            BatchOutOfPolicyError: says how much.
        """
        if self.largest_epsilon is not None and epsilon > self.largest_epsilon:
            raise BatchOutOfPolicyError(
                f"epsilon is {epsilon:.3g} at delta {delta:g}, in its worst view; at most {self.largest_epsilon:g} here"
            )


def check_keys(asked: AskedBatch, keys: Sequence[PartyKey], check: StatementCheck) -> None:
    """Refuse X25519 keys of the parties of a batch, in their order, that their parties' certificates do not vouch for.

    The coordinator, which passes them on, has no certificate of a party, so it cannot put its own keys in their place.

    Raises:
        PartyKeyError: one is missing, unusable, or of somebody else.
    """
    parties = asked.question.parties
    if len(keys) != len(parties):
        raise PartyKeyError(f"the batch has {len(parties)} parties, and comes with {len(keys)} keys")
    for party, key in zip(parties, keys, strict=True):
        try:
            signer = check.signer(key.signed, asked.key_statement(party, key.public), Role.PARTY)
        except UnauthenticatedError as error:
            raise PartyKeyError(f"the key of {party}: {error}") from error
        if signer != Identity(signer.federation, Role.PARTY, party):
            raise PartyKeyError(f"the key of {party} is that of {signer}")
        if not is_usable_public_key(key.public):
            raise PartyKeyError(f"the key of {party} is not usable")
