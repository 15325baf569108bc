"""What a device does about errors: it tells their class to who asks, logs them for its owner, and answers on."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog

from analyses.job.job import JobError
from ledger.books import ChargeError
from ledger.entry import LedgerError
from mpc.errors import PeerViolationError, ProtocolError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import PolicyRefusalError
from mpc.secagg.stage import Stage
from service.codes.coded_text import told
from service.errors import ServiceError
from transport.refusal import WhyRefused

D = TypeVar("D")
P = ParamSpec("P")

_log = structlog.get_logger(__name__)


class SitsOutError(Exception):
    """The device does not answer a question; the text is for its owner and shows nothing of a record.

    Attributes:
        why: what who asks is told of it; None for nothing.
    """

    code: str = "survey-sat-out"

    def __init__(self, text: str, why: WhyRefused | None = None) -> None:
        super().__init__(text)
        self.why = why


def why_refused(error: Exception) -> WhyRefused | None:
    """Return the class of a reason for not answering; None where nothing is said, as of a round that was met before."""
    match error:
        case SitsOutError():
            return error.why
        case PolicyRefusalError():
            return WhyRefused.POLICY
        case ChargeError():
            return WhyRefused.BUDGET
        case JobError():
            return WhyRefused.QUESTION
        case PeerViolationError():
            return WhyRefused.VERSION
        case ProtocolError():
            return None
    return WhyRefused.TROUBLE


def check_least_epsilon(epsilon: float, least: float) -> None:
    """Refuse a question of so small an epsilon that asking it very often would cost next to nothing.

    Args:
        epsilon: that it asks for.
        least: that the owner answers (`policy.least_epsilon`).

    Raises:
        PolicyRefusalError: it is smaller.
    """
    if epsilon < least:
        what = f"epsilon is {epsilon:.3g}; at least {least:.3g} here (policy.least_epsilon)"
        raise PolicyRefusalError(COORDINATOR, Stage.ADVERTISE, what)


def why_failed(error: Exception) -> str:
    """Return what the owner's log says of any error: of errors of others only the class, as their texts may quote data.

    What is logged here is never sent.
    """
    is_ours = isinstance(error, ProtocolError | JobError | ServiceError | LedgerError | OSError)
    return told(error) if is_ours else f"unforeseen: {type(error).__name__}"


def surviving(
    answer: Callable[Concatenate[D, P], Coroutine[Any, Any, bool]],
) -> Callable[Concatenate[D, P], Coroutine[Any, Any, bool]]:
    """Let a device's method that answers a question return False where it raises anything, and log that.

    So no question, whoever made it, ends the loop that answers: later questions are answered all the same.
    """

    @wraps(answer)
    async def survived(device: D, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        try:
            return await answer(device, *args, **kwargs)
        except Exception as error:
            member: Any = getattr(device, "name", "")
            _log.error("left a question unanswered", member=member, reason=why_failed(error))
            return False

    return survived
