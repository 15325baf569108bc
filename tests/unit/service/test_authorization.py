import pytest

from service.authorization import HEALTH_METHODS, Permissions
from service.errors import NotAllowedError, UnauthenticatedError
from service.identity import Identity, Role

SUBMIT, DELIVER = "/moiety.v1.Coordinator/Submit", "/moiety.v1.Mailbox/Deliver"
PERMISSIONS = Permissions(
    "acme", {SUBMIT: frozenset({Role.ANALYST}), DELIVER: frozenset({Role.PARTY, Role.COORDINATOR})}
)


def test_a_role_in_the_table_passes():
    PERMISSIONS.check(SUBMIT, Identity("acme", Role.ANALYST, "ann"))
    PERMISSIONS.check(DELIVER, Identity("acme", Role.PARTY, "bank"))


def test_a_role_outside_the_table_is_told_who_may():
    text = "/moiety.v1.Mailbox/Deliver may be called by coordinator, party only, not by spiffe://acme/analyst/ann"
    with pytest.raises(NotAllowedError, match=text):
        PERMISSIONS.check(DELIVER, Identity("acme", Role.ANALYST, "ann"))


@pytest.mark.parametrize("role", Role)
def test_a_method_outside_the_table_is_for_nobody(role):
    with pytest.raises(NotAllowedError, match="may be called by nobody"):
        PERMISSIONS.check("/moiety.v1.Coordinator/Cancel", Identity("acme", role, "someone"))


@pytest.mark.parametrize("role", Role)
def test_every_member_may_ask_for_health(role):
    for method in HEALTH_METHODS:
        PERMISSIONS.check(method, Identity("acme", role, "someone"))


def test_another_federation_is_refused_even_for_health():
    with pytest.raises(UnauthenticatedError, match="does not belong to federation acme"):
        PERMISSIONS.check(HEALTH_METHODS[0], Identity("evil", Role.PARTY, "bank"))
