"""Why a masked sum stops: one error per cause, so that each attack and each accident is named.

An error of a member that names member 0 accuses the coordinator. None carries a key, a share, a mask or a value.
"""

from mpc.errors import LocalFaultError, PeerViolationError, ProtocolError


class EncodingOverflowError(LocalFaultError):
    """The sum of all members' values might not fit the group of the sum. The round is refused; it never wraps."""


class RoundReusedError(LocalFaultError):
    """This member has taken part in a round of this number before: a retry needs a new attempt and fresh keys."""


class RoundAbortedError(LocalFaultError):
    """The round has been aborted before; its secrets are forgotten."""


class LeftBehindError(ProtocolError):
    """The round goes on without us: we answered too late. Nobody else is at fault."""


class AttemptOverError(ProtocolError):
    """Too few members answered in time, so this attempt of the round is over. There may be another one."""


class PolicyRefusalError(PeerViolationError):
    """What the coordinator proposes is below the floor that this member has set."""


class WrongRoundError(PeerViolationError):
    """A message of another session, round or attempt: replayed or misrouted."""


class OutOfOrderError(PeerViolationError):
    """A message of a stage whose turn it is not."""


class ContradictoryMessageError(PeerViolationError):
    """A second, different message where only a repetition is allowed."""


class LateMessageError(PeerViolationError):
    """A member's message for a stage that is closed. It is not used."""


class ForgedSignatureError(PeerViolationError):
    """A signature is not by the identity key that the roster pins: somebody plays this member, or altered its words."""


class DifferentConfigurationError(PeerViolationError):
    """A member has signed that it was given another configuration of the round than we were."""


class DifferentInputError(PeerViolationError):
    """A member has signed that it was given another public input (for instance another model) than we were."""


class SplitMembersError(PeerViolationError):
    """Members were shown different lists of who takes part."""


class SplitSurvivorsError(PeerViolationError):
    """A member has signed another set of survivors than the one that we were shown."""


class InvalidSetError(PeerViolationError):
    """A set of members that contradicts what came before: strangers, unknown numbers, repetitions."""


class DeclaredDeadError(PeerViolationError):
    """The coordinator leaves out a member that has answered: the one that notices is that member."""


class WrongNeighboursError(PeerViolationError):
    """Sealed shares from or for others than the neighbours that the common graph gives us."""


class TooFewMembersError(ProtocolError):
    """Fewer members are left than the round, or this member, asks for."""


class TooFewSignaturesError(PeerViolationError):
    """Too few members have signed the set of survivors for it to be the only one."""


class UnopenableShareError(PeerViolationError):
    """Sealed shares do not open: altered on the way, replayed, meant for another, or the sender saw other keys."""


class ShareKindError(LocalFaultError):
    """Both kinds of shares of one member were about to be released. Together they would open its vector."""


class WrongSharesError(PeerViolationError):
    """Shares that do not recombine to what their owner committed to."""
