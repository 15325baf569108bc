"""Who may use a relay: certificates of its federation, and what each role may ask for."""

import datetime
from collections.abc import Callable
from contextlib import suppress

from cryptography import x509

from service.certificate_rules import check_issued_by, check_member, check_valid_at, read_as
from service.errors import ServiceError
from service.identity import Identity, Role, identity_of
from service.reach.relays import RelayRefusesError
from service.tls import Credentials

MAY_CALL = {
    Role.PARTY: frozenset({Role.PARTY, Role.COORDINATOR}),
    Role.WORKER: frozenset({Role.WORKER}),
}
"""Role that may stay at a relay to the roles that may ask for a way to it."""

MEMBERS = frozenset({Role.RELAY}) | frozenset(MAY_CALL) | frozenset().union(*MAY_CALL.values())
"""Roles that may ask a relay for a sign of life."""


class Admission:
    """Reads the certificates that callers show.

    Args:
        credentials: credentials of the relay.
        now: clock by which certificates are valid.
    """

    def __init__(self, credentials: Credentials, now: Callable[[], datetime.datetime]) -> None:
        self._now = now
        self.use(credentials)

    def use(self, credentials: Credentials) -> None:
        """Take over the authority and the list of revoked certificates of other credentials."""
        self.credentials = credentials
        self._authority = x509.load_pem_x509_certificate(credentials.authority_pem)

    def admit(self, der: bytes) -> tuple[x509.Certificate, Identity]:
        """Return who calls.

        Raises:
            RelayRefusesError: its certificate is not accepted.
        """
        try:
            with read_as("it is damaged"):
                shown = x509.load_der_x509_certificate(der)
            check_issued_by(shown, self._authority)
            check_member(shown, dials=True)
            self._check_now(shown)
            caller = identity_of(shown)
        except (ServiceError, ValueError) as error:
            raise RelayRefusesError(f"this certificate is not accepted: {error}") from error
        if caller.federation != self.credentials.identity.federation:
            raise RelayRefusesError(f"{caller} does not belong to this federation")
        return shown, caller

    def is_accepted(self, shown: x509.Certificate) -> bool:
        """Return whether a certificate that was admitted still is."""
        with suppress(ServiceError, ValueError):
            check_issued_by(shown, self._authority)
            self._check_now(shown)
            return True
        return False

    def _check_now(self, shown: x509.Certificate) -> None:
        now = self._now()
        check_valid_at(shown, now)
        if self.credentials.revoked is not None:
            self.credentials.revoked.check(shown.serial_number, "this member", now)
