"""The public configuration of a round: who takes part, how many may drop out or collude, what is summed.

It is hashed into every key of the round, so members with different configurations cannot even read each other.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

from mpc.errors import LocalFaultError, TooFewPartiesError
from mpc.secagg.graph_parameters import SMALLEST_DEGREE, find_graph_parameters, required_shares
from mpc.secagg.secret.keys import KEY_BYTES
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import SumGroup
from mpc.transcript import RoundId, digest, encode_fields

MAX_COMPLETE_GRAPH_MEMBERS = 128
MAX_ROSTER_MEMBERS = 1 << 20


@dataclass(frozen=True)
class RosterEntry:
    """One member that is allowed to take part.

    Attributes:
        number: 1 .., its abscissa in every sharing.
        name: name in its certificate; public.
        identity_public: its Ed25519 identity, 32 bytes.
    """

    number: int
    name: str
    identity_public: bytes


@dataclass(frozen=True)
class Topology:
    """The graph of a round, and the numbers of survivors and of colluding members for which the round is safe.

    Attributes:
        n_members: number of members in the roster.
        degree: neighbours of each member; n_members - 1 for the complete graph.
        n_required: shares that open a secret; n_required - 1 say nothing.
        fewest_survivors: a sum of fewer is not opened.
        n_corrupt: largest number of members that may collude with the coordinator.

    Raises:
        TooFewPartiesError: these numbers are not safe together; says which and why.
    """

    n_members: int
    degree: int
    n_required: int
    fewest_survivors: int
    n_corrupt: int

    @classmethod
    def complete(cls, n_members: int, n_corrupt: int, fewest_survivors: int | None = None) -> Self:
        """Return the complete graph that tolerates the most dropouts: 2 n_required > n + n_corrupt.

        With n = 3: n_corrupt = 0 requires 2 shares, so one member may drop out and none may collude; n_corrupt = 1
        requires 3, so one may collude and none may drop out.
        """
        n_required = max((n_members + n_corrupt) // 2 + 1, n_corrupt + 2)
        return cls(n_members, n_members - 1, n_required, fewest_survivors or n_required, n_corrupt)

    @classmethod
    def ring(cls, n_members: int, n_corrupt: int, n_dropouts: int) -> Self:
        """Return the smallest safe ring of at least `SMALLEST_DEGREE` neighbours; see `graph_parameters`."""
        found = find_graph_parameters(n_members, n_corrupt, n_dropouts, smallest_degree=SMALLEST_DEGREE)
        if found is None:
            raise TooFewPartiesError(
                f"no ring of {n_members} members is safe with {n_corrupt} corrupt members and {n_dropouts} dropouts"
            )
        return cls(n_members, found.degree, found.n_required, n_members - n_dropouts, n_corrupt)

    def __post_init__(self) -> None:
        if not 2 <= self.n_members <= MAX_ROSTER_MEMBERS or self.n_corrupt < 0:
            raise TooFewPartiesError(f"a roster must have 2 to {MAX_ROSTER_MEMBERS} members, not {self.n_members}")
        if not self.is_complete and self.n_members <= MAX_COMPLETE_GRAPH_MEMBERS:
            raise TooFewPartiesError(
                f"rounds of up to {MAX_COMPLETE_GRAPH_MEMBERS} members must use the complete graph"
            )
        if self.fewest_survivors < self.n_signatures:
            raise TooFewPartiesError(
                f"with {self.n_corrupt} corrupt members, two different sets of {self.fewest_survivors} of "
                f"{self.n_members} survivors could both be signed"
            )
        smallest = min(self.fewest_survivors, self.n_members)
        if smallest - self.n_corrupt < 2:
            raise TooFewPartiesError(
                f"a sum of {smallest} of {self.n_members} members, of whom {self.n_corrupt} are corrupt, "
                "may contain a single honest member, whose value it would reveal"
            )
        if self.fewest_survivors > self.n_members:
            raise TooFewPartiesError(
                f"a sum of at least {self.fewest_survivors} members is never opened, because there are {self.n_members}"
            )
        if self.is_complete:
            self._check_complete()
        else:
            self._check_ring()

    def _check_complete(self) -> None:
        if 2 * self.n_required <= self.n_members + self.n_corrupt:
            raise TooFewPartiesError(
                f"with {self.n_required} of {self.n_members} shares required and {self.n_corrupt} corrupt members, "
                "the coordinator could collect both kinds of shares of one member"
            )
        if self.fewest_survivors < self.n_required:
            raise TooFewPartiesError(
                f"{self.fewest_survivors} survivors cannot open secrets that need {self.n_required} shares"
            )

    def _check_ring(self) -> None:
        n_dropouts = self.n_members - self.fewest_survivors
        least = required_shares(self.n_members, self.degree, self.n_corrupt, n_dropouts)
        if least is None or not least <= self.n_required <= self.degree:
            raise TooFewPartiesError(
                f"a ring of {self.n_members} members with {self.degree} neighbours each and {self.n_required} "
                f"required shares is not safe with {self.n_corrupt} corrupt members and {n_dropouts} dropouts"
            )

    @property
    def is_complete(self) -> bool:
        """Whether the graph is complete."""
        return self.degree == self.n_members - 1

    @property
    def n_signatures(self) -> int:
        """Number of members that must sign the same survivors: more than half of the honest ones and all corrupt ones.

        An honest member signs one set only, and 2 * n_signatures > n + n_corrupt, so no second set can have as many.
        """
        return (self.n_members + self.n_corrupt) // 2 + 1

    def encode(self) -> bytes:
        """Return it as bytes."""
        return encode_fields(self.n_members, self.degree, self.n_required, self.fewest_survivors, self.n_corrupt)


@dataclass(frozen=True)
class RoundConfig:
    """All public parameters of a round except its input. A valid configuration guarantees that the sum fits the group.

    Attributes:
        round_id: id of the round; never used twice.
        roster: members 1 .. n, in order.
        topology: who shares with whom.
        group: group of the sum.
        vector: name of what is summed; bound into the masks.
        encoding: how members make integers.
        noise_bound: public bound of the noise that stays in the sum.
        surplus_levels: empty, or ascending numbers of survivors, from the fewest allowed to all; see `surplus`.

    Raises:
        EncodingOverflowError: the sum of all members might not fit the group.
        LocalFaultError: the roster or the levels are not well-formed.
    """

    round_id: RoundId
    roster: tuple[RosterEntry, ...]
    topology: Topology
    group: SumGroup
    vector: str
    encoding: VectorEncoding
    noise_bound: int = 0
    surplus_levels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        numbers = [entry.number for entry in self.roster]
        if numbers != list(range(1, self.topology.n_members + 1)):
            raise LocalFaultError(f"the roster must number its members from 1 to {self.topology.n_members}, in order")
        keys = {entry.identity_public for entry in self.roster}
        if len(keys) != len(numbers) or any(len(key) != KEY_BYTES for key in keys):
            raise LocalFaultError("each member of the roster must have its own identity key of 32 bytes")
        if len({entry.name for entry in self.roster}) != len(numbers):
            raise LocalFaultError("each member of the roster must have its own name")
        levels = self.surplus_levels
        if levels and (
            levels[0] != self.topology.fewest_survivors
            or levels[-1] != len(numbers)
            or any(low >= high for low, high in pairwise(levels))
        ):
            raise LocalFaultError(
                "surplus levels must ascend from the smallest allowed number of survivors to the whole roster"
            )
        if self.noise_bound < 0:
            raise LocalFaultError("a bound on the noise must not be negative")
        self.encoding.check_fits(self.group, len(numbers), self.noise_bound)

    @property
    def n_members(self) -> int:
        """Members of the roster."""
        return len(self.roster)

    @property
    def n_elements(self) -> int:
        """Elements of the summed vector."""
        return self.encoding.n_elements

    @property
    def n_surplus_seeds(self) -> int:
        """Seeds in each member's chain."""
        return max(0, len(self.surplus_levels) - 1)

    def name_of(self, member: int) -> str:
        """Return a member's name."""
        return self.roster[member - 1].name

    @cached_property
    def digest(self) -> bytes:
        """The hash that stands for the whole configuration, 32 bytes."""
        roster = [encode_fields(entry.number, entry.name, entry.identity_public) for entry in self.roster]
        return digest(
            "configuration",
            self.round_id.encode(),
            encode_fields(*roster),
            self.topology.encode(),
            self.group.name,
            self.vector,
            self.encoding.encode_rule(),
            str(self.noise_bound),
            encode_fields(*self.surplus_levels),
        )


def input_digest(round_id: RoundId, public_input: bytes) -> bytes:
    """Return the hash of the public input of a round (for instance the model that all members are to improve)."""
    return digest("public input", round_id.encode(), public_input)
