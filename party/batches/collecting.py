"""The answers of a batch as one party gets them from the coordinator: whose they are, which open, and their sum.

The coordinator is believed nothing. A device's answer is signed with the key of its certificate, over the shares of all
parties, so that nobody can answer in a device's name, and all parties hold the same answer of it. Answers come by name,
ascending, so none comes twice.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from mpc.errors import PeerViolationError, ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.secret.keys import KEY_BYTES, RoundKey
from mpc.secagg.secret.party_shares import PROOF, SealingTerms, ShareSum, answer_digest, challenge_seed, open_share
from mpc.secagg.secret.threshold import opening_weight
from mpc.transcript import DIGEST_BYTES
from questions.shares import AskedBatch
from questions.shares_agreement import ListDigest, ShownList
from service.errors import ServiceError
from service.identity import Role
from service.trust.statements import StatementCheck
from transport.batch_codec import AnswerPart

STAGE = "answers"
MAX_NAME_CHARACTERS = 63

SLICE = 16
"""Answers that a thread takes at a time: some milliseconds of work."""

_Listed = tuple[AnswerPart, bytes, int]
"""An answer, its digest, and its place in the list."""


class Collection:
    """Takes in the answers of one batch.

    Args:
        asked: the question.
        me: name of this party.
        key: key of this party for the batch.
        check: check of the devices' signatures.
        pool: threads that check and open answers; None: the caller's own thread does all.
        before: what was shown in an earlier attempt, of which this must be a repetition: whose certificate has expired
            since, or was revoked, is in it still, since other parties may have closed with it.
        openers: numbers of the parties that open, 1 and up; none: all.
    """

    def __init__(
        self,
        asked: AskedBatch,
        me: str,
        key: RoundKey,
        check: StatementCheck,
        *,
        pool: Executor | None = None,
        before: ShownList | None = None,
        openers: Sequence[int] = (),
    ) -> None:
        question = asked.question
        self._asked = asked
        self._position = question.parties.index(me)
        self._key = key
        self._check = check
        self._pool = pool
        self._before = before
        self._list = ListDigest(asked.digest)
        self._last = ""
        self._openable = bytearray()
        self._answers = bytearray()
        n, (first, second), m = len(question.parties), question.shared_elements, question.may_miss
        weight = opening_weight(self._position, [number - 1 for number in question.openers_of(openers)]) if m else 1
        self.sum = ShareSum(question.group, first, self._position, n, second, m, weight)
        self._n_boxes = len(question.sealed_bytes)
        self._boxes = {self._position: "share"}
        if second and self.sum.holds_vector:
            self._boxes[self._position + 1 + m] = PROOF

    def take(self, parts: Sequence[AnswerPart]) -> None:
        """Take in the next answers, and add the shares that open; those that are to be proven are added later.

        Raises:
            PeerViolationError: the coordinator shows devices out of order or twice, or more than the batch can have.
        """
        first = len(self._openable)
        listed = [(part, self._next_in_list(part, place), place) for place, part in enumerate(parts, start=first)]
        shares = self._open_all(listed)
        self._answers += b"".join(answer for _, answer, _ in listed)
        self._openable += bytes(share is not None for share in shares)
        if self._asked.question.claim is None:
            self.sum.add([share for share in shares if share is not None])

    def _next_in_list(self, part: AnswerPart, place: int) -> bytes:
        """Write an answer into the list; return its digest."""
        if not self._last < part.device or len(part.device) > MAX_NAME_CHARACTERS:
            raise self._violation("the coordinator shows a device twice, or devices out of order")
        self._last = part.device
        if place >= self._asked.question.largest_cohort:
            raise self._violation("the coordinator shows more answers than the batch may have")
        answer = self._digest_of(part)
        self._list.add(part.device, answer)
        return answer

    def shown(self) -> ShownList:
        """Return what was shown, and what of it opens.

        Raises:
            PeerViolationError: it is not what was shown before.
        """
        openable = np.frombuffer(bytes(self._openable), dtype=np.uint8).astype(np.bool_)
        found = ShownList(self._list.digest(), openable)
        if self._before is not None:
            same = found.digest == self._before.digest and np.array_equal(openable, self._before.openable)
            if not same:
                raise self._violation("the coordinator shows other answers of this batch than it has shown before")
        return found

    def take_away(self, parts: Sequence[AnswerPart], places: Sequence[int]) -> None:
        """Take answers away again that this party could open and another one could not; see `opened_again`."""
        self.sum.take_away(self.opened_again(parts, places))

    def opened_again(self, parts: Sequence[AnswerPart], places: Sequence[int]) -> list[bytes]:
        """Return the shares of answers that this party could open before.

        Args:
            parts: the same as came before.
            places: positions in the list.

        Raises:
            PeerViolationError: they are not the same.
        """
        if len(parts) != len(places):
            raise self._violation("the coordinator does not show again what it has shown")
        listed = [(part, self._digest_of(part), place) for part, place in zip(parts, places, strict=True)]
        for _, answer, place in listed:
            start = place * DIGEST_BYTES
            if answer != self._answers[start : start + DIGEST_BYTES]:
                raise self._violation("the coordinator does not show again what it has shown")
        shares = [share for share in self._open_all(listed) if share is not None]
        if len(shares) != len(listed):
            raise self._violation("the coordinator does not show again what it has shown")
        return shares

    def challenge(self, part: AnswerPart) -> bytes:
        """Return the key of the challenge that an answer's proof must meet."""
        n = len(self._asked.question.parties)
        return challenge_seed(self._terms(part), part.ephemeral_public, part.seal_digests[:n])

    def _terms(self, part: AnswerPart) -> SealingTerms:
        return SealingTerms(self._asked.digest, part.device, self._asked.question.parties)

    def _digest_of(self, part: AnswerPart) -> bytes:
        return answer_digest(self._terms(part), part.ephemeral_public, part.seal_digests)

    def _open_all(self, listed: Sequence[_Listed]) -> list[bytes | None]:
        """Return the share of each answer, as `_open`, in several threads where there are some."""
        slices = [listed[start : start + SLICE] for start in range(0, len(listed), SLICE)]
        in_turn = map if self._pool is None else self._pool.map
        opened = in_turn(lambda some: [self._open(*one) for one in some], slices)
        return [share for some in opened for share in some]

    def _open(self, part: AnswerPart, answer: bytes, place: int) -> bytes | None:
        """Return the share of an answer, or None where it is nobody's, is not signed, or does not open.

        What was found out in an earlier attempt holds, where the whole list turns out to be the same (`shown`).
        """
        if len(part.ephemeral_public) != KEY_BYTES or len(part.seal_digests) != self._n_boxes:
            return None
        boxes, start = [], 0
        for position, purpose in self._boxes.items():
            end = start + self._asked.question.sealed_bytes[position]
            boxes.append((purpose, part.sealed[start:end]))
            if hashlib.sha256(boxes[-1][1]).digest() != part.seal_digests[position]:
                return None
            start = end
        if start != len(part.sealed):
            return None
        known = None if self._before is None or place >= len(self._before.openable) else self._before.openable[place]
        if known is not None and not known:
            return None
        try:
            if known is None and self._check.signer(part.signed, answer, Role.DEVICE).name != part.device:
                return None
            terms, public = self._terms(part), part.ephemeral_public
            share = b"".join(open_share(terms, self._position, self._key, public, box, what) for what, box in boxes)
            self.sum.check(share)
        except (ValueError, ServiceError, ProtocolError):
            return None
        return share

    @staticmethod
    def _violation(what: str) -> PeerViolationError:
        return PeerViolationError(COORDINATOR, STAGE, what)


def places_of(bits: NDArray[np.bool_]) -> list[int]:
    """Return the places that are set."""
    return [int(place) for place in np.flatnonzero(bits)]
