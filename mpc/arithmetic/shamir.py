"""Shamir sharing with pairwise keys: most shares are derived, few travel.

A polynomial f of degree d with f(0) = secret is fixed by d + 1 of its points. The dealer and d of the receivers derive
those receivers' shares as uniform elements from a key stream that each pair has in common; with the secret that makes
d + 1 points, and the shares of all others are public linear combinations of them. Any d shares are then exactly as
uniform as in [Sha79]: given the secret, d shares are a bijective image of the d derived ones.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError, ShapeError, TooFewPartiesError, TooFewSharesError


@functools.lru_cache(maxsize=4096)
def _weights(primes: tuple[int, ...], points: tuple[int, ...], at: int) -> tuple[tuple[int, ...], ...]:
    rows = []
    for i, x_i in enumerate(points):
        row = []
        for p in primes:
            numerator, denominator = 1, 1
            for k, x_k in enumerate(points):
                if k != i:
                    numerator = numerator * (at - x_k) % p
                    denominator = denominator * (x_i - x_k) % p
            row.append(numerator * pow(denominator, -1, p) % p)
        rows.append(tuple(row))
    return tuple(rows)


def lagrange_weights(field: ResidueField, points: Sequence[int], at: int = 0) -> tuple[tuple[int, ...], ...]:
    """Return the public factors that take a polynomial's values at `points` to its value at `at`.

        f(at) = sum_i weights[i] * f(points[i]),    weights[i] = prod_{k != i} (at - x_k) / (x_i - x_k)

    for every polynomial of degree below `len(points)`, modulo each prime of the field.

    Args:
        field: where the values live.
        points: distinct abscissas in 0 .. smallest prime - 1.
        at: the abscissa wanted; 0 is the secret.

    Returns:
        Per point, in order, the residues of its factor; what `ResidueField.combine` takes.

    Raises:
        LocalFaultError: no points, or not distinct abscissas of the field.
    """
    abscissas = tuple(int(point) for point in points)
    if not abscissas or len(set(abscissas)) != len(abscissas):
        raise LocalFaultError(f"interpolation needs distinct points, not {abscissas}")
    if not all(0 <= x < min(field.primes) for x in (*abscissas, at)):
        raise LocalFaultError(
            f"abscissas must be in 0 .. {min(field.primes) - 1}, but some of {(*abscissas, at)} do not"
        )
    return _weights(field.primes, abscissas, at)


@dataclass(frozen=True)
class ShamirScheme:
    """Sharings of one degree among parties 1 .. n_parties; the party's number is its abscissa.

    Args:
        field: where secrets and shares live.
        n_parties: how many hold a share.
        degree: degree of the polynomial; any `degree` shares are uniform, any `degree + 1` determine the secret.

    Raises:
        TooFewPartiesError: not 1 <= degree < n_parties < smallest prime.
    """

    field: ResidueField
    n_parties: int
    degree: int

    def __post_init__(self) -> None:
        if not 1 <= self.degree < self.n_parties:
            raise TooFewPartiesError(
                f"{self.n_parties} parties cannot hold a sharing of degree {self.degree}: the degree must be at least "
                f"1, and at least {max(self.degree, 1) + 1} parties are needed"
            )
        if self.n_parties >= min(self.field.primes):
            raise TooFewPartiesError(
                f"{self.n_parties} parties need distinct abscissas below the smallest prime {min(self.field.primes)}"
            )

    @property
    def n_required(self) -> int:
        """How many shares determine the secret."""
        return self.degree + 1

    @property
    def parties(self) -> range:
        """The numbers of those that hold a share."""
        return range(1, self.n_parties + 1)

    def derived_receivers(self, dealer: int) -> tuple[int, ...]:
        """Return the `degree` receivers that derive their shares of this dealer's secrets from pairwise keys.

        They follow the dealer cyclically; the dealer itself is never among them. Owners that hold no shares (numbers
        above `n_parties`) begin at different parties, so that the load is even.
        """
        if dealer < 1:
            raise LocalFaultError(f"dealers are numbered from 1, not {dealer}")
        first = dealer if dealer <= self.n_parties else dealer - self.n_parties - 1
        return tuple((first + k) % self.n_parties + 1 for k in range(self.degree))

    def explicit_receivers(self, dealer: int) -> tuple[int, ...]:
        """Return the receivers whose shares are computed and sent (the dealer keeps its own), in ascending order."""
        derived = self.derived_receivers(dealer)
        return tuple(party for party in self.parties if party not in derived)

    def deal(self, dealer: int, secret_words: Words, derived: Mapping[int, Words]) -> dict[int, Words]:
        """Compute the explicit shares of a block of secrets.

        Args:
            dealer: party that deals these secrets.
            secret_words: shape `(n_words, *shape)`.
            derived: for exactly the `derived_receivers(dealer)` the uniform elements drawn from the streams shared with
                them, of the same shape. They must be fresh: used for one array of secrets only.

        Returns:
            For each of `explicit_receivers(dealer)` its share, a new array: the dealer keeps its own, and what is sent
            may wait for its receiver while the next block is dealt.

        Raises:
            LocalFaultError: `derived` is not for the right receivers.
            ShapeError: shapes differ.

        Privacy: any `degree` of all shares, derived ones included, are jointly uniform.
        Cost: `degree + 1` field products per element and explicit receiver.
        """
        sources, targets = self.derived_receivers(dealer), self.explicit_receivers(dealer)
        if set(derived) != set(sources):
            raise LocalFaultError(
                f"dealer {dealer}: `derived` must hold the shares of parties {sources}, got those of "
                f"{tuple(sorted(derived))}"
            )
        parts = [secret_words, *(derived[source] for source in sources)]
        return {
            target: self.field.combine(parts, self.lagrange_weights((0, *sources), at=target)) for target in targets
        }

    def lagrange_weights(self, points: Sequence[int], at: int = 0) -> tuple[tuple[int, ...], ...]:
        """Return the module's `lagrange_weights` over this scheme's field."""
        return lagrange_weights(self.field, points, at)

    def recombine(self, shares: Mapping[int, Words]) -> Words:
        """Return the secrets from any `degree + 1` shares; of more, those with the lowest numbers are used.

        It does not check for corrupted shares; `mpc.arithmetic.opening.open_shares` does.

        Args:
            shares: party number to share, each of shape `(n_words, *shape)`.

        Raises:
            TooFewSharesError: fewer than `degree + 1` shares.
            ShapeError: a share of a party that does not exist, or shapes differ.
        """
        unknown = sorted(set(shares) - set(self.parties))
        if unknown:
            raise ShapeError(f"there is no share number {unknown[0]}; shares are numbered 1 .. {self.n_parties}")
        if len(shares) < self.n_required:
            raise TooFewSharesError(f"{len(shares)} shares arrived, but {self.n_required} are needed")
        used = sorted(shares)[: self.n_required]
        return self.field.combine([shares[number] for number in used], self.lagrange_weights(used))
