from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Step(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_INVITATION: _ClassVar[Step]
    STEP_MEMBERS: _ClassVar[Step]
    STEP_SHARES: _ClassVar[Step]
    STEP_SURVIVORS: _ClassVar[Step]
    STEP_SIGNATURES: _ClassVar[Step]
    STEP_END: _ClassVar[Step]
STEP_INVITATION: Step
STEP_MEMBERS: Step
STEP_SHARES: Step
STEP_SURVIVORS: Step
STEP_SIGNATURES: Step
STEP_END: Step

class Chunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class RoundId(_message.Message):
    __slots__ = ("session", "number", "attempt")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    session: str
    number: int
    attempt: int
    def __init__(self, session: _Optional[str] = ..., number: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("round_id", "step")
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    step: Step
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., step: _Optional[_Union[Step, str]] = ...) -> None: ...

class FromMember(_message.Message):
    __slots__ = ("round_id", "member", "advertisement", "shares", "masked_input", "signature", "unmasking", "declined")
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ADVERTISEMENT_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    MASKED_INPUT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    UNMASKING_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    member: int
    advertisement: Advertisement
    shares: SealedShares
    masked_input: bytes
    signature: SurvivorSignature
    unmasking: UnmaskingShares
    declined: str
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., member: _Optional[int] = ..., advertisement: _Optional[_Union[Advertisement, _Mapping]] = ..., shares: _Optional[_Union[SealedShares, _Mapping]] = ..., masked_input: _Optional[bytes] = ..., signature: _Optional[_Union[SurvivorSignature, _Mapping]] = ..., unmasking: _Optional[_Union[UnmaskingShares, _Mapping]] = ..., declined: _Optional[str] = ...) -> None: ...

class ToMember(_message.Message):
    __slots__ = ("invitation", "members", "shares", "survivors", "signatures", "ended", "pending", "neighbours")
    INVITATION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    SURVIVORS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    invitation: Invitation
    members: MemberList
    shares: ShareDelivery
    survivors: SurvivorList
    signatures: SignedSurvivors
    ended: Ended
    pending: Pending
    neighbours: NeighbourList
    def __init__(self, invitation: _Optional[_Union[Invitation, _Mapping]] = ..., members: _Optional[_Union[MemberList, _Mapping]] = ..., shares: _Optional[_Union[ShareDelivery, _Mapping]] = ..., survivors: _Optional[_Union[SurvivorList, _Mapping]] = ..., signatures: _Optional[_Union[SignedSurvivors, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., pending: _Optional[_Union[Pending, _Mapping]] = ..., neighbours: _Optional[_Union[NeighbourList, _Mapping]] = ...) -> None: ...

class Pending(_message.Message):
    __slots__ = ("retry_s",)
    RETRY_S_FIELD_NUMBER: _ClassVar[int]
    retry_s: float
    def __init__(self, retry_s: _Optional[float] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("opened", "reason", "outcome")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    opened: bool
    reason: str
    outcome: bytes
    def __init__(self, opened: _Optional[bool] = ..., reason: _Optional[str] = ..., outcome: _Optional[bytes] = ...) -> None: ...

class Invitation(_message.Message):
    __slots__ = ("round_id", "roster", "public_input")
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_INPUT_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    roster: _containers.RepeatedCompositeFieldContainer[RosterMember]
    public_input: bytes
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., roster: _Optional[_Iterable[_Union[RosterMember, _Mapping]]] = ..., public_input: _Optional[bytes] = ...) -> None: ...

class RosterMember(_message.Message):
    __slots__ = ("name", "identity_public")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    name: str
    identity_public: bytes
    def __init__(self, name: _Optional[str] = ..., identity_public: _Optional[bytes] = ...) -> None: ...

class Advertisement(_message.Message):
    __slots__ = ("member", "mask_public", "channel_public", "seed_digest", "surplus_anchor", "config_digest", "input_digest", "signature")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MASK_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    SEED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SURPLUS_ANCHOR_FIELD_NUMBER: _ClassVar[int]
    CONFIG_DIGEST_FIELD_NUMBER: _ClassVar[int]
    INPUT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    member: int
    mask_public: bytes
    channel_public: bytes
    seed_digest: bytes
    surplus_anchor: bytes
    config_digest: bytes
    input_digest: bytes
    signature: bytes
    def __init__(self, member: _Optional[int] = ..., mask_public: _Optional[bytes] = ..., channel_public: _Optional[bytes] = ..., seed_digest: _Optional[bytes] = ..., surplus_anchor: _Optional[bytes] = ..., config_digest: _Optional[bytes] = ..., input_digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class MemberList(_message.Message):
    __slots__ = ("round_id", "advertisements")
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    ADVERTISEMENTS_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    advertisements: _containers.RepeatedCompositeFieldContainer[Advertisement]
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., advertisements: _Optional[_Iterable[_Union[Advertisement, _Mapping]]] = ...) -> None: ...

class NeighbourList(_message.Message):
    __slots__ = ("round_id", "root", "advertisements", "paths")
    class PathsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: bytes
        def __init__(self, key: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    ADVERTISEMENTS_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    root: bytes
    advertisements: _containers.RepeatedCompositeFieldContainer[Advertisement]
    paths: _containers.ScalarMap[int, bytes]
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., root: _Optional[bytes] = ..., advertisements: _Optional[_Iterable[_Union[Advertisement, _Mapping]]] = ..., paths: _Optional[_Mapping[int, bytes]] = ...) -> None: ...

class SealedShares(_message.Message):
    __slots__ = ("transcript", "sealed")
    class SealedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: bytes
        def __init__(self, key: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    transcript: bytes
    sealed: _containers.ScalarMap[int, bytes]
    def __init__(self, transcript: _Optional[bytes] = ..., sealed: _Optional[_Mapping[int, bytes]] = ...) -> None: ...

class ShareDelivery(_message.Message):
    __slots__ = ("round_id", "sharers", "transcripts", "sealed")
    class TranscriptsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: bytes
        def __init__(self, key: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...
    class SealedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: bytes
        def __init__(self, key: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    SHARERS_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPTS_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    sharers: _containers.RepeatedScalarFieldContainer[int]
    transcripts: _containers.ScalarMap[int, bytes]
    sealed: _containers.ScalarMap[int, bytes]
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., sharers: _Optional[_Iterable[int]] = ..., transcripts: _Optional[_Mapping[int, bytes]] = ..., sealed: _Optional[_Mapping[int, bytes]] = ...) -> None: ...

class SurvivorList(_message.Message):
    __slots__ = ("round_id", "survivors")
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    SURVIVORS_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    survivors: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., survivors: _Optional[_Iterable[int]] = ...) -> None: ...

class SurvivorSignature(_message.Message):
    __slots__ = ("member", "set_digest", "signature")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    member: int
    set_digest: bytes
    signature: bytes
    def __init__(self, member: _Optional[int] = ..., set_digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class SignedSurvivors(_message.Message):
    __slots__ = ("round_id", "signatures")
    ROUND_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    round_id: RoundId
    signatures: _containers.RepeatedCompositeFieldContainer[SurvivorSignature]
    def __init__(self, round_id: _Optional[_Union[RoundId, _Mapping]] = ..., signatures: _Optional[_Iterable[_Union[SurvivorSignature, _Mapping]]] = ...) -> None: ...

class UnmaskingShares(_message.Message):
    __slots__ = ("seed_shares", "key_shares", "surplus_shares")
    class SeedSharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: bytes
        def __init__(self, key: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...
    class KeySharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: bytes
        def __init__(self, key: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...
    class SurplusSharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: bytes
        def __init__(self, key: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...
    SEED_SHARES_FIELD_NUMBER: _ClassVar[int]
    KEY_SHARES_FIELD_NUMBER: _ClassVar[int]
    SURPLUS_SHARES_FIELD_NUMBER: _ClassVar[int]
    seed_shares: _containers.ScalarMap[int, bytes]
    key_shares: _containers.ScalarMap[int, bytes]
    surplus_shares: _containers.ScalarMap[int, bytes]
    def __init__(self, seed_shares: _Optional[_Mapping[int, bytes]] = ..., key_shares: _Optional[_Mapping[int, bytes]] = ..., surplus_shares: _Optional[_Mapping[int, bytes]] = ...) -> None: ...
