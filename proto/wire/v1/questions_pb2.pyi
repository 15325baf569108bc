from wire.v1 import aggregation_pb2 as _aggregation_pb2
from wire.v1 import batch_pb2 as _batch_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FetchQuestionRequest(_message.Message):
    __slots__ = ("kind", "after")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    after: int
    def __init__(self, kind: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class OfferedQuestion(_message.Message):
    __slots__ = ("number", "question_json", "keys")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    number: int
    question_json: str
    keys: _containers.RepeatedCompositeFieldContainer[_batch_pb2.BatchKey]
    def __init__(self, number: _Optional[int] = ..., question_json: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[_batch_pb2.BatchKey, _Mapping]]] = ...) -> None: ...

class QuestionAnswer(_message.Message):
    __slots__ = ("kind", "question_id", "refused", "body")
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    question_id: bytes
    refused: str
    body: bytes
    def __init__(self, kind: _Optional[str] = ..., question_id: _Optional[bytes] = ..., refused: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class AnswerTaken(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SharesRequest(_message.Message):
    __slots__ = ("question_id", "only")
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    question_id: bytes
    only: bytes
    def __init__(self, question_id: _Optional[bytes] = ..., only: _Optional[bytes] = ...) -> None: ...

class AskRequest(_message.Message):
    __slots__ = ("kind", "question_json", "question_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    question_json: str
    question_id: bytes
    def __init__(self, kind: _Optional[str] = ..., question_json: _Optional[str] = ..., question_id: _Optional[bytes] = ...) -> None: ...

class Refusals(_message.Message):
    __slots__ = ("counts",)
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.ScalarMap[str, int]
    def __init__(self, counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class StageEnded(_message.Message):
    __slots__ = ("stage", "seconds", "n_answers", "missing", "refused")
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    N_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    stage: str
    seconds: float
    n_answers: int
    missing: _containers.RepeatedScalarFieldContainer[str]
    refused: _containers.ScalarMap[str, int]
    def __init__(self, stage: _Optional[str] = ..., seconds: _Optional[float] = ..., n_answers: _Optional[int] = ..., missing: _Optional[_Iterable[str]] = ..., refused: _Optional[_Mapping[str, int]] = ...) -> None: ...

class AskEvent(_message.Message):
    __slots__ = ("opened", "n_answers", "result_json", "failure", "refused", "stage_ended", "retried")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    N_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    STAGE_ENDED_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    opened: bytes
    n_answers: int
    result_json: str
    failure: str
    refused: Refusals
    stage_ended: StageEnded
    retried: str
    def __init__(self, opened: _Optional[bytes] = ..., n_answers: _Optional[int] = ..., result_json: _Optional[str] = ..., failure: _Optional[str] = ..., refused: _Optional[_Union[Refusals, _Mapping]] = ..., stage_ended: _Optional[_Union[StageEnded, _Mapping]] = ..., retried: _Optional[str] = ...) -> None: ...

class QuestionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenQuestion(_message.Message):
    __slots__ = ("question_id", "kind", "analyst", "record", "until_s", "n_answers")
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ANALYST_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    N_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    question_id: bytes
    kind: str
    analyst: str
    record: str
    until_s: float
    n_answers: int
    def __init__(self, question_id: _Optional[bytes] = ..., kind: _Optional[str] = ..., analyst: _Optional[str] = ..., record: _Optional[str] = ..., until_s: _Optional[float] = ..., n_answers: _Optional[int] = ...) -> None: ...

class OpenQuestions(_message.Message):
    __slots__ = ("questions",)
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedCompositeFieldContainer[OpenQuestion]
    def __init__(self, questions: _Optional[_Iterable[_Union[OpenQuestion, _Mapping]]] = ...) -> None: ...

class CallOffRequest(_message.Message):
    __slots__ = ("question_id",)
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    question_id: bytes
    def __init__(self, question_id: _Optional[bytes] = ...) -> None: ...

class CallOffReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
