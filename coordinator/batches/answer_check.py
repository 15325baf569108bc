"""What a coordinator looks at in an answer to a batch, which it cannot read."""

from collections.abc import Callable

from mpc.secagg.secret.keys import KEY_BYTES
from mpc.secagg.secret.party_shares import SealingTerms, answer_digest
from questions.shares import AskedBatch, BatchQuestion
from service.errors import InvalidRequestError, UnauthenticatedError
from service.identity import PeerCertificate
from service.tls import Credentials
from service.trust.statements import StatementCheck
from transport.batch_codec import FIXED_BYTES, PER_PARTY_BYTES, BatchAnswer, part_of


def answer_bytes(question: BatchQuestion) -> int:
    """Return more bytes than any answer to a batch has."""
    return sum(question.sealed_bytes) + PER_PARTY_BYTES * (len(question.parties) + 1) + FIXED_BYTES


class AnswerCheck:
    """Checks answers of devices. May be called from several threads.

    Args:
        credentials: returns the coordinator's, as in use now.
    """

    def __init__(self, credentials: Callable[[], Credentials]) -> None:
        self._credentials = credentials
        self._last_check: StatementCheck | None = None

    def check(self, asked: AskedBatch, caller: PeerCertificate, answer: BatchAnswer) -> None:
        """Refuse an answer that the parties would leave out, as far as that can be seen without their keys.

        Raises:
            InvalidRequestError: it is one.
        """
        name, question, vector = caller.identity.name, asked.question, answer.vector
        sizes = tuple(map(len, vector.sealed))
        if len(vector.ephemeral_public) != KEY_BYTES or sizes != question.sealed_bytes:
            raise InvalidRequestError(f"{name}: this is no answer to the question of the batch")
        part = part_of(name, answer, 0, len(question.parties))
        terms = SealingTerms(asked.digest, name, question.parties)
        statement = answer_digest(terms, vector.ephemeral_public, part.seal_digests)
        try:
            signer = self._statement_check().signer_of_call(answer.signed, statement, caller)
        except UnauthenticatedError as error:
            raise InvalidRequestError(f"{name}: {error}") from error
        if signer != caller.identity:
            raise InvalidRequestError(f"{name} sends an answer that {signer.name} has signed")

    def _statement_check(self) -> StatementCheck:
        credentials = self._credentials()
        if self._last_check is None or self._last_check.credentials is not credentials:
            self._last_check = StatementCheck(credentials)
        return self._last_check
