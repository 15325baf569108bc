"""What can go wrong in a protocol, and who is at fault.

`LocalFaultError` and its kin mean that we called the protocol wrongly. `PeerError` and its kin name another member.
"""


class ProtocolError(Exception):
    """Base of every error that a protocol raises."""


class LocalFaultError(ProtocolError):
    """We are at fault: wrong shapes, wrong field, wrong order of calls."""


class ShapeError(LocalFaultError):
    """Arrays whose shapes do not fit each other or the plan."""


class FieldMismatchError(LocalFaultError):
    """Two operands live in different fields."""


class FieldTooSmallError(LocalFaultError):
    """A public bound needs a larger field than the largest on offer (six primes, 126 bits)."""


class TooFewPartiesError(LocalFaultError):
    """The roster is too small for the number of colluding parties to be tolerated."""


class TooFewSharesError(ProtocolError):
    """Fewer shares arrived than the degree of the sharing needs."""


class PeerError(ProtocolError):
    """Another member is the cause.

    Attributes:
        member: its number in the session.
        stage: the stage at which it happened.
    """

    def __init__(self, member: int, stage: str, what: str) -> None:
        super().__init__(what)
        self.member = member
        self.stage = stage
        self.what = what


class PeerLostError(PeerError):
    """A member cannot be reached any more."""


class PeerSilentError(PeerError):
    """A member sent nothing within the deadline."""


class PeerSlowError(PeerSilentError):
    """A member began to send an array, and did not end it at the least rate."""


class PeerViolationError(PeerError):
    """A member sent something that the protocol does not allow."""


class OutOfRangeError(ProtocolError):
    """A word that came from outside is not a packed field element."""


class InconsistentSharesError(ProtocolError):
    """Surplus shares contradict each other, and not enough of them are there to tell which are wrong."""
