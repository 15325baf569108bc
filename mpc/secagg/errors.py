"""The errors of masked sums: one class per cause, so that each attack and each accident has its own name.

A member's error that names member 0 accuses the coordinator. No error contains a key, a share, a mask or a value.
"""

from mpc.errors import LocalFaultError, PeerViolationError, ProtocolError


class EncodingOverflowError(LocalFaultError):
    """The sum of all members' values might not fit the group of the sum. The round is refused; it never wraps."""

    code = "sum-too-large"


class RoundReusedError(LocalFaultError):
    """This member has taken part in a round of this number before: a retry needs a new attempt and fresh keys."""

    code = "round-reused"


class RoundAbortedError(LocalFaultError):
    """The round was aborted earlier, and its secrets have been deleted."""


class LeftBehindError(ProtocolError):
    """The round continues without us because we answered too late. No other member is at fault."""

    code = "round-goes-on"


class AttemptOverError(ProtocolError):
    """Too few members answered in time, so this attempt of the round is over. There may be another one."""

    code = "round-too-few"


class PolicyRefusalError(PeerViolationError):
    """The proposed round does not meet the policy of this member."""

    code = "round-refused-policy"


class WrongRoundError(PeerViolationError):
    """A message of another session, round or attempt: replayed or misrouted."""


class OutOfOrderError(PeerViolationError):
    """A message arrived out of turn, for another stage than the current one."""


class ContradictoryMessageError(PeerViolationError):
    """A second, different message where only a repetition is allowed."""


class LateMessageError(PeerViolationError):
    """A member's message for a stage that is closed. It is not used."""


class ForgedSignatureError(PeerViolationError):
    """A signature was not made with the identity key in the roster: the message was forged or altered."""


class DifferentConfigurationError(PeerViolationError):
    """A member has signed that it received a configuration of the round that differs from ours."""


class DifferentInputError(PeerViolationError):
    """A member has signed that it received a public input (for instance a model) that differs from ours."""


class SplitMembersError(PeerViolationError):
    """Members received different lists of participants."""


class UnprovenMemberError(PeerViolationError):
    """What the coordinator says of a member of a ring is not under the root that all members have in common."""


class SplitSurvivorsError(PeerViolationError):
    """A member has signed a set of survivors that differs from the one that we received."""


class InvalidSetError(PeerViolationError):
    """A set of members contradicts earlier messages: some members are unknown or repeated, or did not take part."""


class DeclaredDeadError(PeerViolationError):
    """The coordinator leaves out a member that has answered; that member itself detects it."""

    code = "member-left-out"


class WrongNeighboursError(PeerViolationError):
    """Sealed shares from or for others than the neighbours that the common graph gives us."""


class TooFewMembersError(ProtocolError):
    """Fewer members are left than the round, or this member, asks for."""

    code = "members-too-few"


class TooFewSignaturesError(PeerViolationError):
    """Too few members have signed the set of survivors for it to be the only one."""


class UnopenableShareError(PeerViolationError):
    """Sealed shares cannot be opened: they were altered, replayed, misrouted or sealed under other keys."""


class ShareKindError(LocalFaultError):
    """Both kinds of shares of one member would have been released; together they would reveal its vector."""


class WrongSharesError(PeerViolationError):
    """Shares do not recombine to the secret that their owner committed to."""
