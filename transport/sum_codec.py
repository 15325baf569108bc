"""Messages of masked sums on the wire: `mpc.secagg` objects to and from `moiety.v1` messages.

What a message of a round holds is declared by its class (`mpc.secagg.message_form`); the message on the wire and its
fields have the same names. Decoding checks what a type cannot say (that something is there at all); what a message may
hold is checked by the state that receives it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from wire.v1 import aggregation_pb2 as pb

from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RosterEntry, RoundConfig
from mpc.secagg.coordinator import FromMembers
from mpc.secagg.errors import PolicyRefusalError
from mpc.secagg.message_form import Members, MessagePerMember, OneString, StringPerMember, parts_of
from mpc.secagg.messages import (
    Advertisement,
    MaskedInput,
    MemberList,
    NeighbourList,
    SealedShares,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    UnmaskingShares,
)
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.stage import Stage
from mpc.transcript import RoundId
from service.errors import InvalidRequestError, public
from service.identity import check_name
from service.job_id import check_job_id
from transport.refusal import Declined, why_of

MAX_MESSAGE_BYTES = 1 << 30

W = TypeVar("W")


@dataclass(frozen=True)
class Invitation:
    """Coordinator to members: a round, who is asked, and what is asked.

    All else of the round follows from the question and the number of members: each member computes it for itself.

    Attributes:
        round_id: id of the round.
        roster: members 1 .. n, in order.
        public_input: the question, and what all members start from.
    """

    round_id: RoundId
    roster: tuple[RosterEntry, ...]
    public_input: bytes = field(repr=False)

    @property
    def identities(self) -> dict[str, bytes]:
        """The members' identity keys by name, in the order of their numbers."""
        return {entry.name: entry.identity_public for entry in self.roster}

    def checked(self, config: RoundConfig) -> RoundConfig:
        """Return the configuration that follows from the question, if it is of this round and these members.

        Raises:
            PeerViolationError: it is not.
        """
        if (config.round_id, config.roster) != (self.round_id, self.roster):
            what = "the round does not match its question: do both sides run the same version?"
            raise PeerViolationError(COORDINATOR, Stage.ADVERTISE, what)
        return config


@dataclass(frozen=True)
class Ended:
    """Coordinator to members: how a round ended.

    Attributes:
        reason: empty where its sum was opened.
        outcome: what a series of rounds has come to, where it is over; public.
    """

    reason: str
    outcome: bytes = field(default=b"", repr=False)


class RefusedInvitationError(InvalidRequestError):
    """An invitation to a round that is too large for the member, or of members whose names cannot be.

    Attributes:
        round_id: identifier of the round, by which the coordinator can be asked for what came after it.
    """

    code = "invitation-refused"

    def __init__(self, round_id: RoundId, reason: str) -> None:
        super().__init__(reason)
        self.round_id = round_id


ToMembers = Invitation | MemberList | NeighbourList | ShareDelivery | SurvivorList | SignedSurvivors | Ended


def encode_round_id(round_id: RoundId) -> pb.RoundId:
    """Return it for the wire."""
    return pb.RoundId(session=round_id.session, number=round_id.number, attempt=round_id.attempt)


def decode_round_id(message: pb.RoundId) -> RoundId:
    """Return it from the wire."""
    return RoundId(message.session, message.number, message.attempt)


def encode_from_member(message: FromMembers | Declined) -> pb.FromMember:
    """Return a member's message for the wire."""
    wire = pb.FromMember(round_id=encode_round_id(message.round_id), member=message.member)
    if isinstance(message, MaskedInput):  # the only one that is not a message of its own
        wire.masked_input = message.elements
    elif isinstance(message, Declined):
        wire.declined = message.why
    else:
        name = _FROM_MEMBER[type(message)]
        getattr(wire, name).CopyFrom(_encode(message))
    return wire


def decode_from_member(data: bytes) -> FromMembers | Declined:
    """Return a member's message from the wire.

    Raises:
        InvalidRequestError: it is none.
    """
    wire = _parsed(pb.FromMember.FromString, data)
    round_id, member = decode_round_id(wire.round_id), wire.member
    name = wire.WhichOneof("message")
    if name == "masked_input":
        return MaskedInput(round_id, member, wire.masked_input)
    if name == "declined":
        return Declined(round_id, member, why_of(wire.declined))
    for kind, its_name in _FROM_MEMBER.items():
        if name == its_name:
            message: FromMembers = _decode(kind, getattr(wire, name), round_id, member)
            return message
    raise InvalidRequestError("an answer of a member holds no message of a known stage")


_FROM_MEMBER: Mapping[type, str] = {
    Advertisement: "advertisement",
    SealedShares: "shares",
    SurvivorSignature: "signature",
    UnmaskingShares: "unmasking",
}
_TO_MEMBER: Mapping[type, str] = {
    MemberList: "members",
    NeighbourList: "neighbours",
    ShareDelivery: "shares",
    SurvivorList: "survivors",
    SignedSurvivors: "signatures",
}
"""Class of messages to the name of the field of `FromMember` or `ToMember` that holds it."""


def _encode(message: Any) -> Any:
    """Return the wire form of a message of a round: what its class declares, under the same names."""
    wire_type = getattr(pb, type(message).__name__)
    known = wire_type.DESCRIPTOR.fields_by_name
    values: dict[str, Any] = {}
    if "round_id" in known:
        values["round_id"] = encode_round_id(message.round_id)
    if "member" in known:
        values["member"] = message.member
    for name, part in parts_of(type(message)).items():
        value = getattr(message, name)
        if isinstance(part, MessagePerMember):
            value = [_encode(one) for one in value]
        values[name] = value
    return wire_type(**values)


def _decode(kind: type, wire: Any, round_id: RoundId, member: int) -> Any:
    """Return the message of a round that `_encode` wrote; what the wire does not say of whose it is, is given."""
    values: dict[str, Any] = {"round_id": round_id}
    if kind in _FROM_MEMBER:
        values["member"] = member
    for name, part in parts_of(kind).items():
        value = getattr(wire, name)
        match part:
            case MessagePerMember(of):
                values[name] = tuple(_decode(of, one, round_id, one.member) for one in value)
            case Members():
                values[name] = tuple(value)
            case StringPerMember():
                values[name] = dict(value)
            case OneString():
                values[name] = value
    return kind(**values)


def encode_to_member(message: ToMembers) -> pb.ToMember:
    """Return a message of the coordinator for the wire."""
    wire = pb.ToMember()
    match message:
        case Invitation():
            wire.invitation.CopyFrom(_encode_invitation(message))
        case Ended():
            ended = pb.Ended(opened=not message.reason, reason=message.reason, outcome=message.outcome)
            wire.ended.CopyFrom(ended)
        case _:
            name = _TO_MEMBER[type(message)]
            getattr(wire, name).CopyFrom(_encode(message))
    return wire


def decode_to_member(wire: pb.ToMember, policy: MemberPolicy | None = None) -> ToMembers:
    """Return a message of the coordinator from the wire; `pending` has been dealt with.

    Args:
        wire: the message.
        policy: policy of the member that it came to, which bounds the work on an invitation; None for no bound.

    Raises:
        RefusedInvitationError: an invitation to a round that is too large for the policy, or with a wrong name.
        InvalidRequestError: it is no message.
    """
    name = wire.WhichOneof("message")
    match name:
        case "invitation":
            try:
                if policy is not None:
                    policy.check_size(len(wire.invitation.roster), wire.invitation.round_id.attempt)
                return _decode_invitation(wire.invitation)
            except (PolicyRefusalError, ValueError) as error:
                reason = f"the coordinator proposes what cannot be a round here: {error}"
                raise RefusedInvitationError(decode_round_id(wire.invitation.round_id), reason) from error
        case "ended":
            reason = "" if wire.ended.opened else public(wire.ended.reason) or "no reason was given"
            return Ended(reason, wire.ended.outcome)
    for kind, its_name in _TO_MEMBER.items():
        if name == its_name:
            part = getattr(wire, name)
            message: ToMembers = _decode(kind, part, decode_round_id(part.round_id), 0)
            return message
    raise InvalidRequestError("the coordinator sent no message of a known stage")


def parse_to_member(data: bytes) -> pb.ToMember:
    """Return what the coordinator's bytes hold.

    Raises:
        InvalidRequestError: they are no message.
    """
    message: pb.ToMember = _parsed(pb.ToMember.FromString, data)
    return message


def _parsed(read: Callable[[bytes], W], data: bytes) -> W:
    try:
        return read(data)
    except DecodeError as error:
        raise InvalidRequestError("a message of a masked sum cannot be read") from error


def _encode_invitation(invitation: Invitation) -> pb.Invitation:
    roster = [pb.RosterMember(name=one.name, identity_public=one.identity_public) for one in invitation.roster]
    round_id = encode_round_id(invitation.round_id)
    return pb.Invitation(round_id=round_id, roster=roster, public_input=invitation.public_input)


def _decode_invitation(wire: pb.Invitation) -> Invitation:
    check_job_id(wire.round_id.session)
    for one in wire.roster:
        check_name("member", one.name)
    roster = tuple(RosterEntry(i, one.name, one.identity_public) for i, one in enumerate(wire.roster, start=1))
    return Invitation(decode_round_id(wire.round_id), roster, wire.public_input)
