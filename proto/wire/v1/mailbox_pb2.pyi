from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ElementType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ELEMENT_TYPE_UNSPECIFIED: _ClassVar[ElementType]
    ELEMENT_TYPE_UINT8: _ClassVar[ElementType]
    ELEMENT_TYPE_UINT64: _ClassVar[ElementType]
ELEMENT_TYPE_UNSPECIFIED: ElementType
ELEMENT_TYPE_UINT8: ElementType
ELEMENT_TYPE_UINT64: ElementType

class Frame(_message.Message):
    __slots__ = ("envelope", "header", "chunk", "end", "bundle", "first")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    envelope: Envelope
    header: ArrayHeader
    chunk: bytes
    end: End
    bundle: Bundle
    first: FirstArray
    def __init__(self, envelope: _Optional[_Union[Envelope, _Mapping]] = ..., header: _Optional[_Union[ArrayHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ..., end: _Optional[_Union[End, _Mapping]] = ..., bundle: _Optional[_Union[Bundle, _Mapping]] = ..., first: _Optional[_Union[FirstArray, _Mapping]] = ...) -> None: ...

class Bundle(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    def __init__(self, frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("job_id", "stage", "after_first")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIRST_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stage: str
    after_first: bool
    def __init__(self, job_id: _Optional[str] = ..., stage: _Optional[str] = ..., after_first: _Optional[bool] = ...) -> None: ...

class FirstArray(_message.Message):
    __slots__ = ("stage", "element_type", "shape", "content")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    stage: str
    element_type: ElementType
    shape: _containers.RepeatedScalarFieldContainer[int]
    content: bytes
    def __init__(self, stage: _Optional[str] = ..., element_type: _Optional[_Union[ElementType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., content: _Optional[bytes] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ArrayHeader(_message.Message):
    __slots__ = ("sequence", "element_type", "shape", "n_bytes")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    N_BYTES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    element_type: ElementType
    shape: _containers.RepeatedScalarFieldContainer[int]
    n_bytes: int
    def __init__(self, sequence: _Optional[int] = ..., element_type: _Optional[_Union[ElementType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., n_bytes: _Optional[int] = ...) -> None: ...

class Delivered(_message.Message):
    __slots__ = ("n_arrays",)
    N_ARRAYS_FIELD_NUMBER: _ClassVar[int]
    n_arrays: int
    def __init__(self, n_arrays: _Optional[int] = ...) -> None: ...
