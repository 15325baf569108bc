"""The errors of protocols, and which member is at fault.

`LocalFaultError` and its subclasses mean that we called the protocol incorrectly. `PeerError` and its subclasses name
another member.
"""


class ProtocolError(Exception):
    """Base of every error that a protocol raises."""

    code: str = "protocol-failed"
    is_finding: bool = False
    """Whether another member was caught at something, rather than missed; which one may remain open."""


class LocalFaultError(ProtocolError):
    """The caller is at fault: wrong shapes, a wrong field or a wrong order of calls."""


class ShapeError(LocalFaultError):
    """Arrays whose shapes do not fit each other or the plan."""


class FieldMismatchError(LocalFaultError):
    """Two operands are in different fields."""


class FieldTooSmallError(LocalFaultError):
    """A public bound needs a larger field than the largest on offer (six primes, 126 bits)."""

    code = "numbers-too-large"


class TooFewPartiesError(LocalFaultError):
    """The roster is too small for the number of colluding parties to be tolerated."""

    code = "too-few-parties"


class PlacementFailedError(ProtocolError):
    """Keys do not fit where their hashes put them: chance, below 2^-40, or hashes that are not random."""

    code = "placement-failed"


class TooFewSharesError(ProtocolError):
    """Fewer shares arrived than the degree of the sharing needs."""

    code = "too-few-shares"


class PeerError(ProtocolError):
    """Another member caused the error.

    Attributes:
        member: its number in the session.
        stage: the stage at which it happened.
    """

    is_finding = True

    def __init__(self, member: int, stage: str, what: str) -> None:
        super().__init__(what)
        self.member = member
        self.stage = stage
        self.what = what


class PeerLostError(PeerError):
    """A member cannot be reached any more."""

    code = "peer-lost"
    is_finding = False


class PeerSilentError(PeerError):
    """A member sent nothing within the deadline."""

    code = "peer-silent"
    is_finding = False


class PeerSlowError(PeerSilentError):
    """A member began to send an array and then sent it more slowly than the minimum rate."""

    code = "peer-slow"
    is_finding = True


class PeerViolationError(PeerError):
    """A member sent something that the protocol does not allow."""

    code = "peer-violation"


class OutOfRangeError(ProtocolError):
    """A received word is not a packed field element."""


class InconsistentSharesError(ProtocolError):
    """What members have sent contradicts itself, shares as a rule, and nobody can find out who is at fault."""

    code = "shares-contradict"
    is_finding = True
