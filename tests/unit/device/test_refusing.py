import pytest

from analyses.job.job import JobError
from device.refusing import why_refused
from ledger.entry import LedgerError
from ledger.spending import BudgetExhaustedError, ChargeError
from mpc.errors import PeerViolationError
from mpc.secagg.errors import PolicyRefusalError, RoundReusedError
from service.errors import TimedOutError
from transport.refusal import WhyRefused


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PolicyRefusalError(0, "advertise", "too few"), WhyRefused.POLICY),
        (BudgetExhaustedError("spent"), WhyRefused.BUDGET),
        (ChargeError("no budget"), WhyRefused.BUDGET),
        (JobError("no such record"), WhyRefused.QUESTION),
        (PeerViolationError(0, "advertise", "another version"), WhyRefused.VERSION),
        (LedgerError("the disk is full"), WhyRefused.TROUBLE),
        (TimedOutError("no answer"), WhyRefused.TROUBLE),
        (RoundReusedError("met before"), None),
    ],
)
def test_a_refusal_is_told_by_the_class_of_its_error_alone(error, why):
    assert why_refused(error) is why
