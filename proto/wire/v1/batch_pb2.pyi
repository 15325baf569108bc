from wire.v1 import aggregation_pb2 as _aggregation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SignedBy(_message.Message):
    __slots__ = ("certificate", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class BatchKey(_message.Message):
    __slots__ = ("key_public", "signed_by")
    KEY_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    SIGNED_BY_FIELD_NUMBER: _ClassVar[int]
    key_public: bytes
    signed_by: SignedBy
    def __init__(self, key_public: _Optional[bytes] = ..., signed_by: _Optional[_Union[SignedBy, _Mapping]] = ...) -> None: ...

class BatchKeys(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[BatchKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[BatchKey, _Mapping]]] = ...) -> None: ...

class BatchAnswer(_message.Message):
    __slots__ = ("ephemeral_public", "sealed", "signed_by")
    EPHEMERAL_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    SIGNED_BY_FIELD_NUMBER: _ClassVar[int]
    ephemeral_public: bytes
    sealed: _containers.RepeatedScalarFieldContainer[bytes]
    signed_by: SignedBy
    def __init__(self, ephemeral_public: _Optional[bytes] = ..., sealed: _Optional[_Iterable[bytes]] = ..., signed_by: _Optional[_Union[SignedBy, _Mapping]] = ...) -> None: ...

class BatchTaken(_message.Message):
    __slots__ = ("openers",)
    OPENERS_FIELD_NUMBER: _ClassVar[int]
    openers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, openers: _Optional[_Iterable[int]] = ...) -> None: ...

class BatchPart(_message.Message):
    __slots__ = ("device", "ephemeral_public", "seal_digests", "sealed", "signed_by")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    SEAL_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    SIGNED_BY_FIELD_NUMBER: _ClassVar[int]
    device: str
    ephemeral_public: bytes
    seal_digests: _containers.RepeatedScalarFieldContainer[bytes]
    sealed: bytes
    signed_by: SignedBy
    def __init__(self, device: _Optional[str] = ..., ephemeral_public: _Optional[bytes] = ..., seal_digests: _Optional[_Iterable[bytes]] = ..., sealed: _Optional[bytes] = ..., signed_by: _Optional[_Union[SignedBy, _Mapping]] = ...) -> None: ...

class BatchOpenRequest(_message.Message):
    __slots__ = ("question_json", "analyst")
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    ANALYST_FIELD_NUMBER: _ClassVar[int]
    question_json: str
    analyst: str
    def __init__(self, question_json: _Optional[str] = ..., analyst: _Optional[str] = ...) -> None: ...

class BatchCloseRequest(_message.Message):
    __slots__ = ("question_json", "attempt", "openers")
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OPENERS_FIELD_NUMBER: _ClassVar[int]
    question_json: str
    attempt: str
    openers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, question_json: _Optional[str] = ..., attempt: _Optional[str] = ..., openers: _Optional[_Iterable[int]] = ...) -> None: ...

class BatchShare(_message.Message):
    __slots__ = ("share", "cohort")
    SHARE_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    share: bytes
    cohort: bytes
    def __init__(self, share: _Optional[bytes] = ..., cohort: _Optional[bytes] = ...) -> None: ...
