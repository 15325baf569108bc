"""The prover's side: two vectors to be shared, the second of which answers a challenge from the shares of the first.

Let h be the roots of unity of order m, Z(t) = t^m - 1, and w_c the polynomial that has the values of column c of the
table on h, plus the column's mask times Z. On h these are 0:

    w_c (w_c - 1) .. (w_c - top_c)           for each column, as it holds digits;
    sum_i x_i^2 - t q(t) - sigma / m         x_i of the digits' polynomials, q the further coefficients of the first
                                             part, and sigma the squared norm less what is left up to it. The values of
                                             a polynomial on h add up to m times the constant of its remainder modulo
                                             Z, so sigma is the sum of all squares [BCR+19];
    sum_i x_i + what is left - largest sum   and so for the weight: constants.

So their sum with the factors of a challenge is Z H for a polynomial H. The second part is H, by its values on cosets of
h, for each repetition.

Nothing here fails, or takes another path, where an integer is out of range: the proof is wrong then.
"""

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.prime import kernels as prime_kernels
from mpc.prime.field import Words, coefficients_of, element, elements, inverse, random, shifts, values_of
from mpc.prime.kernels import PRIME
from mpc.vector_proofs.claim import REPETITIONS, Claim


def challenge_of(claim: Claim, stream: KeyStream) -> Words:
    """Return the factors of all constraints, shape (REPETITIONS, constraints): columns, then further numbers.

    Args:
        claim: what is proven.
        stream: the challenge: nobody can know it before the shares of the first part are fixed.
    """
    return random(stream, REPETITIONS, claim.table.n_constraints)


def first_part(claim: Claim, integers: NDArray[np.int64], stream: KeyStream) -> Words:
    """Return the table of a vector with its masks, shape (claim.table.first_part,).

    Args:
        claim: what is proven.
        integers: x, and the weight behind it where there is one, shape (length,) or (length + 1,). Secret.
        stream: randomness for the masks.
    """
    table = claim.table
    entries = np.zeros(table.n_entries, dtype=np.int64)
    entries[: claim.length] = integers[: claim.length]
    held = np.zeros((table.rows, table.columns), dtype=np.uint64)
    digits = claim.digits.taken(entries - claim.lowest)
    held[:, : table.entry_columns] = digits.reshape(table.rows, table.entry_columns)
    for name, number in _further_numbers(claim, integers).items():
        places = table.places(name)
        held.reshape(-1)[places] = [number // table.base**digit % table.base for digit in range(len(places))]
    parts = [held.reshape(-1), random(stream, table.columns)]
    if claim.squared_norm is not None:
        parts.append(_remainder(claim, held)[1:, 0])
    return np.concatenate(parts)


def second_part(claim: Claim, first: Words, challenge: Words) -> Words:
    """Return what answers a challenge, shape (claim.table.second_part,): H on all cosets, for each repetition.

    Args:
        claim: what is proven.
        first: what `first_part` returned. Secret.
        challenge: what `challenge_of` returned.
    """
    table = claim.table
    m, n_columns = table.rows, table.columns
    held, masks = first[: m * n_columns].reshape(m, n_columns), first[m * n_columns : table.masked]
    coefficients = coefficients_of(held)
    tops, factors = np.array(table.tops, dtype=np.uint64), np.ascontiguousarray(challenge[:, :n_columns])
    of_norm = np.ascontiguousarray(challenge[:, n_columns]) if claim.squared_norm is not None else None
    remainder = None if of_norm is None else _remainder(claim, held)
    out = np.empty((REPETITIONS, table.base, m), dtype=np.uint64)
    for coset, shift in enumerate(shifts(table.base)):
        powers = elements([pow(shift, k, PRIME) for k in range(m)])
        on_coset = pow(shift, m, PRIME) - 1
        values = _on_coset(coefficients, powers)
        added = masks[None].copy()
        prime_kernels.scale_rows(added, elements([on_coset]))
        prime_kernels.add_to(values.reshape(-1), np.tile(added[0], m))
        sums = np.empty((m, REPETITIONS), dtype=np.uint64)
        prime_kernels.range_sums(sums, values, tops, factors)
        quotient = np.ascontiguousarray(sums.T)
        if of_norm is not None and remainder is not None:
            squares = squares_of(claim, values)
            prime_kernels.take_from(squares, _on_coset(remainder, powers).reshape(-1))
            scaled = np.tile(squares, (REPETITIONS, 1))
            prime_kernels.scale_rows(scaled, of_norm)
            prime_kernels.add_to(quotient.reshape(-1), scaled.reshape(-1))
        prime_kernels.scale_rows(quotient, elements([inverse(on_coset)] * REPETITIONS))
        out[:, coset] = quotient
    return out.reshape(-1)


def squares_of(claim: Claim, values: Words) -> Words:
    """Return sum_i x_i^2 for each row of values of the columns, shape (rows,)."""
    squares = np.empty(len(values), dtype=np.uint64)
    weights = elements(list(claim.digits.weights))
    n = claim.table.entries_of_row
    prime_kernels.square_sums(squares, np.ascontiguousarray(values), weights, element(claim.lowest), n)
    return squares


def _remainder(claim: Claim, held: Words) -> Words:
    """Return sum_i x_i^2 modulo Z: its constant and the further coefficients, shape (rows, 1)."""
    return coefficients_of(squares_of(claim, held)[:, None])


def _on_coset(coefficients: Words, powers: Words) -> Words:
    scaled = coefficients.copy()
    prime_kernels.scale_rows(scaled, powers)
    return values_of(scaled)


def _further_numbers(claim: Claim, integers: NDArray[np.int64]) -> dict[str, int]:
    vector, found = integers[: claim.length], {}
    if claim.squared_norm is not None:
        found["norm"] = claim.squared_norm - int(vector @ vector)
    if claim.largest_sum is not None:
        found["sum"] = claim.largest_sum - int(vector.sum())
    if claim.weight is not None:
        found |= {"weight": int(integers[-1]), "rest": claim.weight - int(integers[-1])}
    return found
