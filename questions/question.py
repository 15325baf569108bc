"""What all questions to devices have in common, and the form in which a coordinator asks those that are kept."""

import hashlib
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, ValidationError

from analyses.job.job import JobError, PublicModel, explain

ID_BYTES = 16
"""Length of a question's identifier on the wire."""

MAX_QUESTION_BYTES = 4 << 20
"""Largest size of the text of a question of any kind: it may name its members."""


class Question(PublicModel):
    """What an analyst asks of devices."""

    kind: ClassVar[str]
    """Name of the kind, by which devices and the coordinator find what answers it."""

    max_bytes: ClassVar[int] = MAX_QUESTION_BYTES
    """Largest size of its text."""

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Read a question.

        Raises:
            JobError: not such a question, or one that cannot be answered; the text names each wrong field.
        """
        try:
            question = cls.model_validate(tree)
        except ValidationError as error:
            raise JobError(explain(error, cls)) from None
        question.check()
        return question

    def check(self) -> None:
        """Refuse what no noise or no group can answer; raises `JobError`."""


class Asked(PublicModel):
    """A question as a coordinator asks it: all that devices and the coordinator agree on.

    Attributes:
        question: the analyst's.
        asker: the coordinator's identity, as its certificate states it.
        session: drawn at random, so that no two questions have the same digest.
    """

    question: Question
    asker: Annotated[str, Field(max_length=300)]
    session: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a question that was asked.

        Raises:
            JobError: not the canonical text of such a question.
        """
        kind: type[Question] = cls.model_fields["question"].annotation  # type: ignore[assignment]
        if len(text) > 2 * kind.max_bytes:
            raise JobError(f"the question is longer than {2 * kind.max_bytes} bytes")
        asked = super().from_json(text)
        asked.question.check()
        if asked.canonical_json() != text:
            raise JobError("the question is not in its canonical form: do both run the same version?")
        return asked

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the kind and the canonical text."""
        return hashlib.sha256(f"moiety {self.question.kind} question:{self.canonical_json()}".encode()).digest()

    @property
    def question_id(self) -> bytes:
        """The identifier on the wire: the beginning of the digest."""
        return self.digest[:ID_BYTES]
