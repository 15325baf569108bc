"""What an analyst hears of a question to devices while it is open, without generated types, and how it travels."""

from collections.abc import Iterator
from dataclasses import dataclass

from wire.v1 import questions_pb2 as pb

from service.errors import public
from service.limits import CHUNK_BYTES
from transport.refusal import Refusals, refusals_of

PIECE_CHARACTERS = CHUNK_BYTES // 2
"""Largest part of a result's text in one message."""


@dataclass(frozen=True)
class Opened:
    """The question is open, under this identifier."""

    question_id: bytes


@dataclass(frozen=True)
class Counted:
    """The number of answers taken so far."""

    n_answers: int


@dataclass(frozen=True)
class Refused:
    """The numbers of devices that will not answer, by the class of their reason."""

    refusals: Refusals


@dataclass(frozen=True)
class StageReport:
    """How a stage of a masked sum went; public.

    Attributes:
        stage: its name.
        seconds: how long it took.
        n_answers: members that answered in time.
        missing: names of those that did not, and have not refused.
        refused: how many have refused to take part, by the class of the reason.
    """

    stage: str
    seconds: float
    n_answers: int
    missing: tuple[str, ...]
    refused: Refusals = ()


@dataclass(frozen=True)
class Retried:
    """Why a round is tried again with fresh keys; public text."""

    reason: str


@dataclass(frozen=True)
class Result:
    """The question is closed; its result as JSON."""

    result_json: str


@dataclass(frozen=True)
class Failed:
    """The question is closed, and there is no result; the text is public."""

    reason: str


Happening = Opened | Counted | Refused | StageReport | Retried | Result | Failed


def events_of(happening: Happening) -> Iterator[pb.AskEvent]:
    """Yield what happens as it travels; a result comes in pieces."""
    match happening:
        case Opened(question_id):
            yield pb.AskEvent(opened=question_id)
        case Counted(n_answers):
            yield pb.AskEvent(n_answers=n_answers)
        case Refused(refusals):
            yield pb.AskEvent(refused=pb.Refusals(counts=dict(refusals)))
        case StageReport(stage, seconds, n_answers, missing, refused):
            ended = pb.StageEnded(
                stage=stage, seconds=seconds, n_answers=n_answers, missing=missing, refused=dict(refused)
            )
            yield pb.AskEvent(stage_ended=ended)
        case Retried(reason):
            yield pb.AskEvent(retried=reason)
        case Failed(reason):
            yield pb.AskEvent(failure=reason)
        case Result(text):
            for start in range(0, len(text), PIECE_CHARACTERS):
                yield pb.AskEvent(result_json=text[start : start + PIECE_CHARACTERS])


def happening_of(event: pb.AskEvent) -> Happening:
    """Return what happens as it came; of a result one piece."""
    match event.WhichOneof("event"):
        case "opened":
            return Opened(event.opened)
        case "n_answers":
            return Counted(event.n_answers)
        case "refused":
            return Refused(refusals_of(event.refused.counts))
        case "stage_ended":
            ended = event.stage_ended
            missing, refused = tuple(map(public, ended.missing)), refusals_of(ended.refused)
            return StageReport(public(ended.stage), ended.seconds, ended.n_answers, missing, refused)
        case "retried":
            return Retried(public(event.retried))
        case "result_json":
            return Result(event.result_json)
    return Failed(public(event.failure) or "no reason was given")
