"""How many calls and reads of one identity there may be at the same time."""

import pytest

from service.errors import TooMuchError
from service.identity import Identity, Role
from service.limits import READS_EACH, CallCounts, MethodLimit

ANN, BEN = Identity("acme", Role.ANALYST, "ann"), Identity("acme", Role.ANALYST, "ben")
COUNTS = {"/Own": MethodLimit(100, 2, reads_each=1), "/A": MethodLimit(100, 2), "/B": MethodLimit(100, 2)}


async def n_free(reads):
    """Take all; return how many there were."""
    n = 0
    while not reads.locked():
        await reads.acquire()
        n += 1
    return n


async def test_methods_share_the_reads_of_a_caller_unless_they_have_their_own():
    counts = CallCounts(COUNTS)
    with counts.call("/A", ANN) as a, counts.call("/B", ANN) as b, counts.call("/Own", ANN) as own:
        assert a is b is not own
        with counts.call("/Own", ANN) as again, counts.call("/A", BEN) as other:
            assert again is own
            assert other is not a
        assert (await n_free(a), await n_free(own)) == (READS_EACH, 1)


async def test_a_caller_has_all_reads_again_once_its_calls_have_ended():
    counts = CallCounts(COUNTS)
    with counts.call("/Own", ANN) as reads:
        assert await n_free(reads) == 1
    del reads
    with counts.call("/Own", ANN) as reads:
        assert await n_free(reads) == 1


def test_one_more_call_than_a_caller_may_have_is_refused():
    counts = CallCounts(COUNTS)
    with counts.call("/A", ANN), counts.call("/A", ANN), counts.call("/A", BEN):
        with pytest.raises(TooMuchError, match="already has 2 calls of /A in flight"), counts.call("/A", ANN):
            pass
        with counts.call("/B", ANN):
            pass
