"""Opening a sharing: interpolate, check surplus shares, correct corrupted shares and name their senders.

The shares of one element are a word of a Reed-Solomon code. With m shares of degree d there are m - d - 1 more than
needed: up to that many shares may be missing, and up to half as many corrupted shares can be corrected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.reed_solomon import decode_reed_solomon
from mpc.arithmetic.shamir import lagrange_weights
from mpc.arithmetic.words import Words
from mpc.errors import InconsistentSharesError, LocalFaultError, ShapeError, TooFewSharesError
from mpc.hidden import Hidden


@dataclass(frozen=True, eq=False)
class Opening(Hidden):
    """What was opened.

    Attributes:
        words: the values, shape `(n_words, *shape)`. Not shown by repr.
        wrong: the numbers of the members that sent a corrupted share of any entry, ascending; empty if all agree.
    """

    instead = "ask its `words`"

    words: Words = field(repr=False)
    wrong: tuple[int, ...]


def open_shares(shares: Mapping[int, Words], degree: int, field: ResidueField, deviating: int = 0) -> Opening:
    """Open from any `degree + 1` shares; more of them are checked and, where possible, corrected.

    Surplus shares must lie on the polynomials through the others. Where they do not, up to `surplus // 2` senders are
    found to be wrong (in any entry, modulo any prime), and the result is what all others agree on in every entry.

    Of m shares, e are corrected only where `deviating` wrong ones could not lead to another polynomial: two polynomials
    agree in `degree` points at most, so wrong shares that are within e of another one are m - degree - e or more.
    Hence e < m - degree - deviating. So no `deviating` members can make a right share count as wrong.

    Args:
        shares: member number, which is the abscissa, to share; all of one shape, already range-checked.
        degree: degree of the sharing polynomial.
        field: field of the shares.
        deviating: number of members that may choose their shares together.

    Raises:
        TooFewSharesError: fewer than `degree + 1` shares.
        InconsistentSharesError: shares contradict each other and the surplus is too small to tell which are wrong.
        ShapeError: shapes differ.
        LocalFaultError: a member number is no abscissa of a share.

    Cost: one linear combination of `degree + 1` arrays, and one more per surplus share.
    """
    if degree < 0 or any(number < 1 for number in shares):
        raise LocalFaultError("the degree of a sharing must be at least 0, and its shares must be numbered from 1")
    if len(shares) < degree + 1:
        raise TooFewSharesError(f"{len(shares)} shares arrived, but {degree + 1} are needed")
    numbers = tuple(sorted(shares))
    surplus = len(numbers) - degree - 1
    n_correctable = max(0, min(surplus // 2, surplus - deviating))
    wrong: set[int] = set()
    while True:
        trusted = [number for number in numbers if number not in wrong]
        basis = trusted[: degree + 1]
        entry = _first_disagreement(shares, basis, trusted[degree + 1 :], field)
        if entry is None:
            break
        found = _wrong_in_entry(shares, numbers, entry, degree, field) if n_correctable else None
        if found is None or len(wrong | found) > n_correctable:
            raise InconsistentSharesError(
                f"the {len(numbers)} shares of {list(numbers)} contradict each other; {degree + 1} shares are needed, "
                f"so at most {n_correctable} corrupted shares can be corrected, and there are more"
            )
        wrong |= found
    words = field.combine([shares[number] for number in basis], lagrange_weights(field, basis))
    return Opening(words, tuple(sorted(wrong)))


def _first_disagreement(
    shares: Mapping[int, Words], basis: list[int], surplus: list[int], field: ResidueField
) -> tuple[int, int] | None:
    """Return index of the prime and flat index of the entry where a surplus share is off the basis' polynomial."""
    parts = [shares[number] for number in basis]
    for number in surplus:
        expected = field.combine(parts, lagrange_weights(field, basis, at=number))
        if shares[number].shape != expected.shape:
            raise ShapeError(f"the share of member {number} has another shape than that of member {basis[0]}")
        if np.array_equal(expected, shares[number]):
            continue
        differences = field.residues(field.subtract(expected, shares[number]))
        for i, difference in enumerate(differences):
            entries = np.flatnonzero(difference)
            if entries.size:
                return i, int(entries[0])
    return None


def _wrong_in_entry(
    shares: Mapping[int, Words], numbers: tuple[int, ...], entry: tuple[int, int], degree: int, field: ResidueField
) -> set[int] | None:
    """Decode one entry modulo one prime: who sent a wrong residue, or None where it cannot be decoded."""
    prime_index, position = entry
    received = [
        int(field.residues(shares[number].reshape(field.n_words, -1)[:, position])[prime_index]) for number in numbers
    ]
    decoded = decode_reed_solomon(numbers, received, degree, field.primes[prime_index])
    if decoded is None:
        return None
    return {number for number, got, right in zip(numbers, received, decoded, strict=True) if got != right}
