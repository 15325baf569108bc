"""Permissions: a table of the roles that may call each method; everything else is refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from service.errors import NotAllowedError, UnauthenticatedError
from service.identity import Identity, Role

HEALTH_METHODS = ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch")


@dataclass(frozen=True)
class Permissions:
    """Full method name -> roles that may call it. Deny by default.

    Attributes:
        federation: callers of another federation are refused, even if our authority signed their certificates.
        allowed: for instance `{"/moiety.v1.Mailbox/Deliver": {Role.PARTY, Role.COORDINATOR}}`. The standard health
            service needs no entry: every member may ask it.
        checks: full method name -> what else to ask of a caller of the right role, for instance whether this service
            knows its name; raises `NotAllowedError`.
    """

    federation: str
    allowed: Mapping[str, frozenset[Role]]
    checks: Mapping[str, Callable[[Identity], None]] = field(default_factory=dict)

    def check(self, method: str, caller: Identity) -> None:
        """Accept or refuse a call.

        Raises:
            UnauthenticatedError: the caller is of another federation.
            NotAllowedError: the method is not for its role; the text names method, caller and roles.
        """
        if caller.federation != self.federation:
            raise UnauthenticatedError(f"{caller} does not belong to federation {self.federation}")
        roles = frozenset(Role) if method in HEALTH_METHODS else self.allowed.get(method, frozenset())
        if caller.role not in roles:
            who = ", ".join(sorted(roles)) or "nobody"
            raise NotAllowedError(f"{method} may be called by {who} only, not by {caller}")
        if (check := self.checks.get(method)) is not None:
            check(caller)
