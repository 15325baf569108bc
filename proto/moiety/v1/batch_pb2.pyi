from moiety.v1 import aggregation_pb2 as _aggregation_pb2
from moiety.v1 import survey_pb2 as _survey_pb2
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

class BatchFetchReply(_message.Message):
    __slots__ = ("number", "question_json", "keys")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    number: int
    question_json: str
    keys: _containers.RepeatedCompositeFieldContainer[BatchKey]
    def __init__(self, number: _Optional[int] = ..., question_json: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[BatchKey, _Mapping]]] = ...) -> None: ...

class BatchAnswer(_message.Message):
    __slots__ = ("batch_id", "refused", "ephemeral_public", "sealed", "signed_by")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    SIGNED_BY_FIELD_NUMBER: _ClassVar[int]
    batch_id: bytes
    refused: str
    ephemeral_public: bytes
    sealed: _containers.RepeatedScalarFieldContainer[bytes]
    signed_by: SignedBy
    def __init__(self, batch_id: _Optional[bytes] = ..., refused: _Optional[str] = ..., ephemeral_public: _Optional[bytes] = ..., sealed: _Optional[_Iterable[bytes]] = ..., signed_by: _Optional[_Union[SignedBy, _Mapping]] = ...) -> None: ...

class BatchTaken(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BatchSharesRequest(_message.Message):
    __slots__ = ("batch_id", "only")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    batch_id: bytes
    only: bytes
    def __init__(self, batch_id: _Optional[bytes] = ..., only: _Optional[bytes] = ...) -> None: ...

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
    __slots__ = ("question_json",)
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    question_json: str
    def __init__(self, question_json: _Optional[str] = ...) -> None: ...

class BatchCloseRequest(_message.Message):
    __slots__ = ("question_json", "attempt")
    QUESTION_JSON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    question_json: str
    attempt: str
    def __init__(self, question_json: _Optional[str] = ..., attempt: _Optional[str] = ...) -> None: ...

class BatchShare(_message.Message):
    __slots__ = ("share", "cohort")
    SHARE_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    share: bytes
    cohort: bytes
    def __init__(self, share: _Optional[bytes] = ..., cohort: _Optional[bytes] = ...) -> None: ...
