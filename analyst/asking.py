"""Questions to devices, as an analyst asks and follows them; for the client in Python and for `moiety ask`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from analyses.job.job import JobError
from analyst.background import run
from analyst.connection import ClientConfig, open_coordinator
from analyst.named_files import with_files
from service.codes.coded_text import parted
from service.errors import RemoteFailureError
from service.files.text_file import TextFileError, read_text

if TYPE_CHECKING:
    from questions.question import Question
    from questions.reading import AnyQuestion
    from transport.happenings import Happening

    AskedOfDevices: TypeAlias = "AnyQuestion | Question | Path"
    """What a client takes: a question, or the path of its file."""

    Show: TypeAlias = Callable[[Happening], object] | None
    """Is called with all that happens before the end; the first tells the identifier of the question."""


class QuestionFailedError(RuntimeError):
    """A question to devices has ended without a result; the text says why.

    Attributes:
        code: error code of the reason; `moiety explain` says what it means.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        _, self.code = parted(reason)


class AsksDevices:
    """The part of a client that asks devices."""

    config: ClientConfig

    async def ask(self, question: "AskedOfDevices", show: "Show" = None) -> dict[str, Any]:
        """Ask devices, wait for the end, and return the answer as JSON data. The question stays open without us.

        Args:
            question: question of any kind (`questions`), or the path of its file, as `moiety ask` takes it.
            show: see `Show`.

        Raises:
            JobError: there is no such question.
            QuestionFailedError: there is no answer.
            ServiceError: the coordinator cannot be reached, or refuses.
        """
        return await result_of(self.config, question, show=show)

    async def follow(self, question_id: bytes, show: "Show" = None) -> dict[str, Any]:
        """Wait for the answer to a question that was asked earlier, and return it; errors as of `ask`."""
        return await result_of(self.config, question_id=question_id, show=show)


class WaitsForDevices:
    """The same for programs that wait."""

    @property
    def config(self) -> ClientConfig:
        """Whom it talks to."""
        raise NotImplementedError

    def ask(self, question: "AskedOfDevices", show: "Show" = None) -> dict[str, Any]:
        """See `AsyncClient.ask`."""
        return run(result_of(self.config, question, show=show))

    def follow(self, question_id: bytes, show: "Show" = None) -> dict[str, Any]:
        """See `AsyncClient.follow`."""
        return run(result_of(self.config, question_id=question_id, show=show))


def read_question(path: Path) -> "AnyQuestion":
    """Read a question's file.

    Raises:
        JobError: it cannot be read, or is none; the text names each wrong field.
    """
    from questions.reading import question_from_toml  # with numerics

    try:
        return question_from_toml(read_text(path), lambda fields: with_files(fields, path.parent))
    except TextFileError as error:
        raise JobError(str(error)) from None
    except JobError as error:
        raise JobError("\n".join(f"{path}: {line}" for line in str(error).splitlines())) from None


async def result_of(
    config: ClientConfig,
    question: "AskedOfDevices | None" = None,
    question_id: bytes = b"",
    show: "Show" = None,
) -> dict[str, Any]:
    """Ask a question or follow one, and return its result as JSON data. The question stays open where we go away.

    Args:
        config: configuration of the analyst.
        question: a question to ask; or
        question_id: identifier of a question that was asked before.
        show: see `Show`.

    Raises:
        JobError: there is no such question.
        QuestionFailedError: there is no result.
        ServiceError: the coordinator cannot be reached, or refuses.
    """
    from transport.happenings import Failed, Result
    from transport.question_client import ask

    asked = read_question(question) if isinstance(question, Path) else question
    kind, text = ("", "") if asked is None else (asked.kind, asked.canonical_json())
    async with open_coordinator(config) as (name, channel):
        async for happening in ask(name, channel, kind, text, question_id):
            if isinstance(happening, Result):
                result: dict[str, Any] = json.loads(happening.result_json)
                return result
            if isinstance(happening, Failed):
                raise QuestionFailedError(happening.reason)
            if show is not None:
                show(happening)
    raise RemoteFailureError(f"{config.coordinator.name} ended the call without a result")
