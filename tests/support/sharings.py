"""Shares of known values, dealt as the protocols deal them but with a named seed in place of pairwise keys."""

from collections.abc import Mapping

import numpy as np

from entropy import InsecureTestEntropy, KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.arithmetic.words import Words


def random_words(field: ResidueField, shape: int | tuple[int, ...], seed: str) -> Words:
    return field.random(KeyStream(InsecureTestEntropy(seed).read(32)), shape)


def share(scheme: ShamirScheme, secret: Words, seed: str, dealer: int = 1) -> dict[int, Words]:
    derived = {
        receiver: random_words(scheme.field, secret.shape[1:], f"{seed} {receiver}")
        for receiver in scheme.derived_receivers(dealer)
    }
    return derived | scheme.deal(dealer, secret, derived)


def pick(shares: Mapping[int, Words], numbers: tuple[int, ...]) -> dict[int, Words]:
    return {number: shares[number] for number in numbers}


def corrupt(words: Words, prime_index: int, entry: int, field: ResidueField) -> Words:
    """Another valid share: one residue of one entry is changed."""
    residues = [r.reshape(-1).copy() for r in field.residues(words)]
    residues[prime_index][entry] = (residues[prime_index][entry] + 1) % field.primes[prime_index]
    return field.pack([r.reshape(words.shape[1:]) for r in residues])


def as_integers(field: ResidueField, words: Words) -> np.ndarray:
    """The balanced integers as Python integers, whatever the field."""
    return field.decode(words).astype(object)
