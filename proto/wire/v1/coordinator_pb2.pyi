from wire.v1 import aggregation_pb2 as _aggregation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRequest(_message.Message):
    __slots__ = ("job_json", "idempotency_key")
    JOB_JSON_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    job_json: str
    idempotency_key: str
    def __init__(self, job_json: _Optional[str] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class JobRef(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class JobRecord(_message.Message):
    __slots__ = ("job_id", "analysis", "state", "reason", "culprit", "stage", "submitted_by", "submitted_at_s", "ended_at_s", "title", "waits_for_owners_of")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ANALYSIS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_BY_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_OWNERS_OF_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    analysis: str
    state: str
    reason: str
    culprit: str
    stage: str
    submitted_by: str
    submitted_at_s: float
    ended_at_s: float
    title: str
    waits_for_owners_of: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., analysis: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., culprit: _Optional[str] = ..., stage: _Optional[str] = ..., submitted_by: _Optional[str] = ..., submitted_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ..., title: _Optional[str] = ..., waits_for_owners_of: _Optional[_Iterable[str]] = ...) -> None: ...

class JobPart(_message.Message):
    __slots__ = ("record", "job_json", "plan_json", "result_json")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    JOB_JSON_FIELD_NUMBER: _ClassVar[int]
    PLAN_JSON_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    record: JobRecord
    job_json: str
    plan_json: str
    result_json: str
    def __init__(self, record: _Optional[_Union[JobRecord, _Mapping]] = ..., job_json: _Optional[str] = ..., plan_json: _Optional[str] = ..., result_json: _Optional[str] = ...) -> None: ...

class TablesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TablesPart(_message.Message):
    __slots__ = ("party", "listing_json", "problem")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    LISTING_JSON_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    party: str
    listing_json: str
    problem: str
    def __init__(self, party: _Optional[str] = ..., listing_json: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ("at_s", "state", "stage", "member", "percent", "text")
    AT_S_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    at_s: float
    state: str
    stage: str
    member: str
    percent: int
    text: str
    def __init__(self, at_s: _Optional[float] = ..., state: _Optional[str] = ..., stage: _Optional[str] = ..., member: _Optional[str] = ..., percent: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...
