"""Lies that a coordinator service tells one member, the victim; to the others it is honest.

Each is a function of the message that the victim should have got, so the same lies can be told over gRPC
(`coordinator.sums.rounds`) and over a job's session (`analyses.sums.sessions.session_sum`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from entropy import InsecureTestEntropy
from mpc.errors import ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import (
    DeclaredDeadError,
    ForgedSignatureError,
    InvalidSetError,
    SplitSurvivorsError,
    TooFewSignaturesError,
    UnopenableShareError,
    WrongNeighboursError,
)
from mpc.secagg.messages import MemberList, ShareDelivery, SignedSurvivors, SurvivorList
from mpc.secagg.secret.keys import IdentityKey

VICTIM, TARGET = 2, 4


@dataclass(frozen=True)
class Lie:
    """A false message, and the error with which the victim leaves the round.

    Attributes:
        about: types of the messages that are changed.
        change: the honest message to the false one.
        error: its type.
        accused: whom the error names; 0 for the coordinator.
    """

    about: type | tuple[type, ...]
    change: Callable[[Any], Any]
    error: type[ProtocolError]
    accused: int = COORDINATOR

    def told(self, member: int, message: Any) -> Any:
        """Return what is sent to a member in the message's place."""
        return self.change(message) if member == VICTIM and isinstance(message, self.about) else message

    def told_to_all(self, messages: Mapping[int, Any]) -> dict[int, Any]:
        """Return what is sent to all; the victim sees signatures even where its own is of a set that was made up."""
        anybodys = next(iter(messages.values()))
        if isinstance(anybodys, SignedSurvivors):
            messages = {VICTIM: anybodys, **messages}
        return {member: self.told(member, message) for member, message in messages.items()}


def _play_target(honest: MemberList) -> MemberList:
    ours = IdentityKey(InsecureTestEntropy("coordinator"))
    ads = []
    for ad in honest.advertisements:
        if ad.member == TARGET:
            ad = replace(ad, mask_public=InsecureTestEntropy("played").read(32))
            ad = replace(ad, signature=ours.sign(ad.signed_bytes()))
        ads.append(ad)
    return replace(honest, advertisements=tuple(ads))


def _without(member: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    return lambda entries: tuple(e for e in entries if getattr(e, "member", e) != member)


def _without_sealed(honest: ShareDelivery) -> ShareDelivery:
    keep = [m for m in honest.sealed if m != TARGET]
    transcripts, sealed = ({m: part[m] for m in keep} for part in (honest.transcripts, honest.sealed))
    return replace(honest, transcripts=transcripts, sealed=sealed)


def _exchanged(honest: ShareDelivery) -> ShareDelivery:
    return replace(honest, sealed=honest.sealed | {TARGET: honest.sealed[1]})


def _without_target(honest: SurvivorList | SignedSurvivors) -> SurvivorList | SignedSurvivors:
    if isinstance(honest, SurvivorList):
        return replace(honest, survivors=_without(TARGET)(honest.survivors))
    return replace(honest, signatures=_without(TARGET)(honest.signatures))


def _forged(honest: SignedSurvivors) -> SignedSurvivors:
    before = tuple(one for one in honest.signatures if one.member < TARGET)
    return replace(honest, signatures=(*before, replace(before[0], member=TARGET, signature=bytes(64))))


LIES = {
    "plays a member": Lie(MemberList, _play_target, ForgedSignatureError, TARGET),
    "leaves the victim out": Lie(
        MemberList,
        lambda honest: replace(honest, advertisements=_without(VICTIM)(honest.advertisements)),
        DeclaredDeadError,
    ),
    "says that the victim shared nothing": Lie(
        ShareDelivery, lambda honest: replace(honest, sharers=_without(VICTIM)(honest.sharers)), DeclaredDeadError
    ),
    "cuts two neighbours apart": Lie(ShareDelivery, _without_sealed, WrongNeighboursError),
    "exchanges sealed shares": Lie(ShareDelivery, _exchanged, UnopenableShareError, TARGET),
    "counts the victim as dropped out": Lie(
        SurvivorList, lambda honest: replace(honest, survivors=_without(VICTIM)(honest.survivors)), DeclaredDeadError
    ),
    "splits the survivors": Lie((SurvivorList, SignedSurvivors), _without_target, SplitSurvivorsError, 1),
    "forges a signature": Lie(SignedSurvivors, _forged, ForgedSignatureError, TARGET),
    "counts one signature several times": Lie(
        SignedSurvivors,
        lambda honest: replace(honest, signatures=(honest.signatures[0],) * len(honest.signatures)),
        InvalidSetError,
    ),
    "relays too few signatures": Lie(
        SignedSurvivors, lambda honest: replace(honest, signatures=honest.signatures[:2]), TooFewSignaturesError
    ),
}
