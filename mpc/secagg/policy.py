"""The policy of a member: the minimum requirements for any round that the coordinator proposes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from mpc.protocol.session import COORDINATOR
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import PolicyRefusalError
from mpc.secagg.graph_parameters import SMALLEST_DEGREE
from mpc.secagg.stage import Stage
from mpc.secagg.vector.encoding import Rounding

ENCODING_KINDS = frozenset({*map(str, Rounding), *(f"rotated-{rounding}" for rounding in Rounding)})
"""All values of `VectorEncoding.kind`."""


@dataclass(frozen=True)
class MemberPolicy:
    """A member's own floor. It comes from the member's configuration; nothing that the coordinator sends changes it.

    Attributes:
        pinned: name to identity key of every member that this one accepts beside itself. A coordinator can leave some
            out, but not invent any.
        smallest_cohort: a sum of fewer survivors is refused.
        smallest_n_required: a sharing that fewer shares open is refused.
        corrupt_fraction: fraction of the members that may collude with the coordinator; a round that is safe only
            against fewer is refused.
        smallest_degree: a graph with fewer neighbours is refused (the complete graph never is).
        largest_degree: a graph with more is refused: work and traffic grow with it.
        largest_elements: a longer vector is refused.
        largest_attempt: maximum number of retries of one round.
        allowed_encodings: values of `VectorEncoding.kind`.
    """

    pinned: Mapping[str, bytes] = field(repr=False)
    smallest_cohort: int = 3
    smallest_n_required: int = 2
    corrupt_fraction: Fraction = Fraction(0)
    smallest_degree: int = SMALLEST_DEGREE
    largest_degree: int = 1024
    largest_elements: int = 1 << 26
    largest_attempt: int = 8
    allowed_encodings: frozenset[str] = ENCODING_KINDS

    def check_size(self, n_members: int, attempt: int) -> None:
        """Refuse a round by what an invitation states, before anything is computed of it.

        A roster with more members than are pinned has unknown members, so it violates the policy in any case.

        Args:
            n_members: number of members in the roster.
            attempt: number of the round's attempt.

        Raises:
            PolicyRefusalError: says what is too large, and what is accepted.
        """
        if n_members > self.largest_roster:
            _refuse(f"the roster has {n_members} members; {self.largest_roster} are known here")
        if attempt > self.largest_attempt:
            _refuse(f"this is attempt {attempt}; at most {self.largest_attempt} here")

    @property
    def largest_roster(self) -> int:
        """The most members that a round may have: those that are pinned, and this one."""
        return len(self.pinned) + 1

    def check(self, config: RoundConfig, me: int, identity_public: bytes) -> None:
        """Refuse a round that is below this floor.

        Args:
            config: configuration of the round; already consistent in itself.
            me: my number in it.
            identity_public: my identity key.

        Raises:
            PolicyRefusalError: says what is too low, and what is asked for.
        """
        topology = config.topology
        self.check_size(config.n_members, config.round_id.attempt)
        if topology.degree > self.largest_degree:
            _refuse(f"each member has {topology.degree} neighbours; at most {self.largest_degree} here")
        if config.n_elements > self.largest_elements:
            _refuse(f"the vector has {config.n_elements} elements; at most {self.largest_elements} here")
        if not 1 <= me <= config.n_members or config.roster[me - 1].identity_public != identity_public:
            _refuse(f"the roster does not list this member as number {me} with its own identity key")
        for entry in config.roster:
            if entry.number != me and self.pinned.get(entry.name) != entry.identity_public:
                _refuse(f"the roster lists {entry.name} with an identity key that is not pinned here")
        if topology.fewest_survivors < self.smallest_cohort:
            _refuse(f"a sum of {topology.fewest_survivors} members may be opened; at least {self.smallest_cohort} here")
        if topology.n_required < self.smallest_n_required:
            _refuse(f"{topology.n_required} shares open a secret; at least {self.smallest_n_required} here")
        if topology.n_corrupt < self.corrupt_fraction * config.n_members:
            _refuse(
                f"the round is safe with {topology.n_corrupt} corrupt members of {config.n_members}; at least a "
                f"fraction of {float(self.corrupt_fraction):g} here"
            )
        if not topology.is_complete and topology.degree < self.smallest_degree:
            _refuse(f"each member has {topology.degree} neighbours; at least {self.smallest_degree} here")
        if config.encoding.kind not in self.allowed_encodings:
            _refuse(f"the encoding {config.encoding.kind} is not one of {', '.join(sorted(self.allowed_encodings))}")


def _refuse(what: str) -> None:
    raise PolicyRefusalError(COORDINATOR, Stage.ADVERTISE, f"the proposed round is refused: {what}")
