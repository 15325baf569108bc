"""Seeds of which a prefix is opened when more members survive than necessary, so that their noise can be removed.

Each member may add, to its vector, parts made from seeds 0 .. n - 1 (of noise, say). How many members survive decides
how many of these parts are in excess, and always the first ones are. The seeds form a hash chain, so that opening one
seed opens all before it, and one share per member and holder suffices. The holders have shares of all seeds before any
member can drop out, so dropouts while the excess is opened do not matter.
"""

from collections.abc import Sequence

from entropy import Entropy
from mpc.transcript import digest

SEED_BYTES = 32


class SurplusSeeds:
    """One member's seeds for one round: seed i is a hash of seed i + 1, and the public anchor one of seed 0.

    Args:
        entropy: 32 bytes are read from it.
        n_seeds: at least 0.
    """

    __slots__ = ("_anchor", "_seeds")

    def __init__(self, entropy: Entropy, n_seeds: int) -> None:
        chain = [entropy.read(SEED_BYTES)]
        for _ in range(n_seeds):
            chain.append(_before(chain[-1]))
        self._anchor = chain.pop()
        self._seeds = tuple(reversed(chain))

    @property
    def anchor(self) -> bytes:
        """Commits to all seeds; public, 32 bytes."""
        return self._anchor

    @property
    def seeds(self) -> tuple[bytes, ...]:
        """All seeds, in order."""
        return self._seeds

    def __repr__(self) -> str:
        return f"SurplusSeeds(n_seeds={len(self._seeds)})"


def opened_seeds(last: bytes, n_opened: int) -> tuple[bytes, ...]:
    """Return seeds 0 .. n_opened - 1, given the last of them."""
    chain = [last]
    while len(chain) < n_opened:
        chain.append(_before(chain[-1]))
    return tuple(reversed(chain))


def belongs_to(last: bytes, n_opened: int, anchor: bytes) -> bool:
    """Say whether `last` is seed n_opened - 1 of the chain with this anchor."""
    return _before(opened_seeds(last, n_opened)[0]) == anchor


def n_opened_by(levels: Sequence[int], n_survivors: int) -> int:
    """Return how many seeds are opened: so many levels above the first have been reached.

    Args:
        levels: ascending numbers of survivors; the first is the fewest allowed, and each one more opens one seed more.
        n_survivors: at least the first level.
    """
    return sum(n_survivors >= level for level in levels[1:])


def _before(seed: bytes) -> bytes:
    return digest("surplus chain", seed)
