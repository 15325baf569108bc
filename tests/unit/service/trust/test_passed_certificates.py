"""What is remembered of certificates is bounded, and never more than what was added."""

import tracemalloc

from service.trust.passed_certificates import BUCKET, PassedCertificates

AUTHORITY = b"authority"


def certificates(n, first=0):
    return [b"certificate %d" % number for number in range(first, first + n)]


def test_what_was_added_is_remembered_for_its_authority_and_nothing_else():
    passed = PassedCertificates(b"s" * 32, most=4096)
    for one in certificates(1000):
        passed.add(one, AUTHORITY)
        passed.add(one, AUTHORITY)
    assert all(passed.has(one, AUTHORITY) for one in certificates(1000))
    assert not any(passed.has(one, b"another authority") for one in certificates(1000))
    assert not any(passed.has(one, AUTHORITY) for one in certificates(1000, first=1000))


def test_where_there_is_no_place_left_some_are_forgotten_and_memory_does_not_grow():
    tracemalloc.start()
    try:
        passed = PassedCertificates(b"s" * 32, most=BUCKET)
        before, _ = tracemalloc.get_traced_memory()
        for one in certificates(5000):
            passed.add(one, AUTHORITY)
            assert passed.has(one, AUTHORITY)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(passed.has(one, AUTHORITY) for one in certificates(5000)) == BUCKET
    assert after - before < 10_000


def test_places_follow_from_a_secret_that_nothing_shows():
    one, other = (PassedCertificates(secret, most=BUCKET) for secret in (b"a" * 32, b"b" * 32))
    one.add(b"certificate", AUTHORITY)
    other.add(b"certificate", AUTHORITY)
    assert one._places != other._places
    assert repr(one) == "PassedCertificates()"
