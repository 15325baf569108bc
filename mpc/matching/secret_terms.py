"""What is public about matching under shares: who leads, who helps, which bins there are."""

from collections.abc import Mapping
from dataclasses import dataclass

from mpc.errors import LocalFaultError
from mpc.matching.bins import Bins, n_parts_of, room_of


@dataclass(frozen=True)
class SecretTerms:
    """What is public about matching under shares.

    Attributes:
        owners: members that bring tables, in the order of the joint table; all are compute parties.
        most_rows: maximum number of rows that each owner declares.
        n_parties: compute parties, at least 3.
    """

    owners: tuple[int, ...]
    most_rows: Mapping[int, int]
    n_parties: int

    def __post_init__(self) -> None:
        if len(self.owners) < 2 or self.n_parties < 3 or not set(self.owners) <= set(range(1, self.n_parties + 1)):
            raise LocalFaultError("rows are matched under shares between two or more of at least three compute parties")

    @property
    def leader(self) -> int:
        """The owner whose rows go into bins: that of the smallest declared table, of several the first."""
        return min(self.owners, key=lambda owner: (self.most_rows[owner], owner))

    @property
    def others(self) -> tuple[int, ...]:
        """All other owners."""
        return tuple(owner for owner in self.owners if owner != self.leader)

    def helper_of(self, owner: int) -> int:
        """Return the first compute party that is neither this owner nor the leader."""
        return next(p for p in range(1, self.n_parties + 1) if p not in (owner, self.leader))

    def bins(self, key: bytes) -> Bins:
        """Return the bins under a key that the leader draws; their number does not depend on it."""
        return Bins(self.most_rows[self.leader], key, self.n_parts)

    @property
    def n_parts(self) -> int:
        """Parts into which all owners deal their ids."""
        return n_parts_of([self.most_rows[owner] for owner in self.owners])

    def room(self, owner: int) -> int:
        """Return how many ids of an owner a part has room for."""
        return room_of(self.most_rows[owner], self.n_parts)
