from wire.v1 import aggregation_pb2 as _aggregation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Proposal(_message.Message):
    __slots__ = ("job_id", "job_json", "roster", "analyst")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_JSON_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    ANALYST_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job_json: str
    roster: _containers.RepeatedCompositeFieldContainer[Member]
    analyst: str
    def __init__(self, job_id: _Optional[str] = ..., job_json: _Optional[str] = ..., roster: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., analyst: _Optional[str] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ("analyst",)
    ANALYST_FIELD_NUMBER: _ClassVar[int]
    analyst: str
    def __init__(self, analyst: _Optional[str] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("number", "name")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    number: int
    name: str
    def __init__(self, number: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class ProposalReply(_message.Message):
    __slots__ = ("accepted", "reason", "schema_json")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    schema_json: str
    def __init__(self, accepted: _Optional[bool] = ..., reason: _Optional[str] = ..., schema_json: _Optional[str] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ("job_id", "schema_json", "plan_digest")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PLAN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    schema_json: _containers.RepeatedScalarFieldContainer[str]
    plan_digest: bytes
    def __init__(self, job_id: _Optional[str] = ..., schema_json: _Optional[_Iterable[str]] = ..., plan_digest: _Optional[bytes] = ...) -> None: ...

class ReserveEvent(_message.Message):
    __slots__ = ("waiting", "reserved", "refused")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    waiting: Waiting
    reserved: Reserved
    refused: Refused
    def __init__(self, waiting: _Optional[_Union[Waiting, _Mapping]] = ..., reserved: _Optional[_Union[Reserved, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class Reserved(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class RunRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class PartyEvents(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[PartyEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[PartyEvent, _Mapping]]] = ...) -> None: ...

class PartyEvent(_message.Message):
    __slots__ = ("progress", "finished", "failed")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    finished: Finished
    failed: Failed
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., finished: _Optional[_Union[Finished, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("stage", "percent", "waits_for")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    stage: str
    percent: int
    waits_for: str
    def __init__(self, stage: _Optional[str] = ..., percent: _Optional[int] = ..., waits_for: _Optional[str] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Failed(_message.Message):
    __slots__ = ("stage", "reason", "culprit", "is_finding")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CULPRIT_FIELD_NUMBER: _ClassVar[int]
    IS_FINDING_FIELD_NUMBER: _ClassVar[int]
    stage: str
    reason: str
    culprit: str
    is_finding: bool
    def __init__(self, stage: _Optional[str] = ..., reason: _Optional[str] = ..., culprit: _Optional[str] = ..., is_finding: _Optional[bool] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("job_id", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReceiptRequest(_message.Message):
    __slots__ = ("job_id", "result_digest")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    result_digest: bytes
    def __init__(self, job_id: _Optional[str] = ..., result_digest: _Optional[bytes] = ...) -> None: ...

class SignedReceipt(_message.Message):
    __slots__ = ("receipt_json", "certificate", "signature")
    RECEIPT_JSON_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    receipt_json: str
    certificate: bytes
    signature: bytes
    def __init__(self, receipt_json: _Optional[str] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class ReachRequest(_message.Message):
    __slots__ = ("timeout_s",)
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    timeout_s: float
    def __init__(self, timeout_s: _Optional[float] = ...) -> None: ...

class ReachReply(_message.Message):
    __slots__ = ("version", "members", "protocol")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    version: str
    members: _containers.RepeatedCompositeFieldContainer[Reached]
    protocol: int
    def __init__(self, version: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Reached, _Mapping]]] = ..., protocol: _Optional[int] = ...) -> None: ...

class Reached(_message.Message):
    __slots__ = ("role", "name", "outcome", "found", "fix")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    role: str
    name: str
    outcome: str
    found: str
    fix: str
    def __init__(self, role: _Optional[str] = ..., name: _Optional[str] = ..., outcome: _Optional[str] = ..., found: _Optional[str] = ..., fix: _Optional[str] = ...) -> None: ...
