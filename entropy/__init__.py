"""Randomness: where every random bit of shares, masks and noise comes from.

The lowest room: `mpc` and `dp` draw from it and it imports neither.
"""

from entropy.source import Entropy, InsecureTestEntropy, SystemEntropy
from entropy.stream import KeyStream, derive_key

__all__ = ["Entropy", "InsecureTestEntropy", "KeyStream", "SystemEntropy", "derive_key"]
