"""What a device says of a refusal to those who ask: the class of the reason, by the class of the error."""

from analyses.job.job import JobError
from mpc.errors import PeerViolationError
from mpc.secagg.errors import PolicyRefusalError
from party.ledger.books import ChargeError
from party.ledger.entry import LedgerError
from service.errors import ServiceError
from transport.refusal import WhyRefused


def why_refused(error: Exception) -> WhyRefused | None:
    """Return the class of a reason for not answering; None where nothing is said, as of a round that was met before."""
    match error:
        case PolicyRefusalError():
            return WhyRefused.POLICY
        case ChargeError():
            return WhyRefused.BUDGET
        case JobError():
            return WhyRefused.QUESTION
        case PeerViolationError():
            return WhyRefused.VERSION
        case LedgerError() | ServiceError():
            return WhyRefused.TROUBLE
    return None
