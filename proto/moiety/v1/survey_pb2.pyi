from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SurveyFetchRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: int
    def __init__(self, after: _Optional[int] = ...) -> None: ...

class SurveyFetchReply(_message.Message):
    __slots__ = ("number", "question_json")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    number: int
    question_json: str
    def __init__(self, number: _Optional[int] = ..., question_json: _Optional[str] = ...) -> None: ...

class SurveyAnswer(_message.Message):
    __slots__ = ("question_id", "refused", "body")
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    question_id: bytes
    refused: str
    body: bytes
    def __init__(self, question_id: _Optional[bytes] = ..., refused: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class SurveyTaken(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SurveyAskRequest(_message.Message):
    __slots__ = ("question_json", "question_id")
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    question_json: str
    question_id: bytes
    def __init__(self, question_json: _Optional[str] = ..., question_id: _Optional[bytes] = ...) -> None: ...

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

class SurveyEvent(_message.Message):
    __slots__ = ("opened", "n_responses", "result_json", "failure", "refused")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    N_RESPONSES_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    opened: bytes
    n_responses: int
    result_json: str
    failure: str
    refused: Refusals
    def __init__(self, opened: _Optional[bytes] = ..., n_responses: _Optional[int] = ..., result_json: _Optional[str] = ..., failure: _Optional[str] = ..., refused: _Optional[_Union[Refusals, _Mapping]] = ...) -> None: ...
