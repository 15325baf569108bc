"""Everybody's noise, of degree t, with a proof that nobody's is larger than noise can be (`mpc.proofs.noise_bound`)."""

import math

import numpy as np
from numpy.typing import NDArray

from entropy import Entropy
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.words import Words
from mpc.proofs.noise_bound import N_ROOTS, NoiseBound
from mpc.proofs.norm_bound import N_PROJECTIONS
from mpc.proofs.norm_proof import DealtRows, ProofOfWhat, prove_norms
from mpc.proofs.squares.four_squares import four_squares
from mpc.protocol.exchange import ShareExchange


async def proven_noise(exchange: ShareExchange, stage: str, mine: NDArray[np.int64], largest: int) -> Words:
    """Return my share of the sum of all parties' noise, degree t, in the field of the exchange.

    Args:
        exchange: dealing and taking of shares of the computation; I hold shares.
        stage: begins the names of stages, unique within the job.
        mine: my part, shape (entries,). Secret.
        largest: public bound of the size of an entry of the noise of all parties, at least 1.

    Returns:
        Shape (n_words, entries).

    Raises:
        PeerViolationError: names a party whose noise is beyond its bound.
        LocalFaultError, InconsistentSharesError, PeerError: see `prove_norms`.

    Privacy: t parties learn nothing of the noise of others, within 2^-41 for each of them.
    Soundness is stated by `prove_norms`. Cost: 1 round, and those of `prove_norms`, in a field of some ten primes.
    """
    bound = NoiseBound.of_entries(mine.size, largest)
    field, session = bound.field, exchange.session
    wide = ShareExchange(session, field, exchange.n_parties, exchange.t, exchange.secrets)
    whole = await session.compute(_whole_row, field, mine, bound)
    parties = range(1, exchange.n_parties + 1)
    own = await wide.deal(stage, 0, whole, exchange.t)
    assert own is not None, "a compute party holds a share of what it deals"
    others = {party: whole.shape[1:] for party in parties if party != session.me}
    dealt = {session.me: own} | await wide.take_all(others, stage, 0, exchange.t)
    masks = uniform_masks(session.entropy, bound.log2_mask)
    rows = DealtRows(dict.fromkeys(parties, bound), 1, dealt, whole, masks)
    what = ProofOfWhat.under(stage, "noise")
    await prove_norms(wide, rows, None, what)

    def summed() -> Words:
        total = field.zeros(mine.size)
        for words in dealt.values():
            field.accumulate(total, np.ascontiguousarray(words[:, 0, : mine.size]))
        return exchange.field.pack(field.residues(total)[: len(exchange.field.primes)])

    return await session.compute(summed)


def _whole_row(field: ResidueField, noise: NDArray[np.int64], bound: NoiseBound) -> Words:
    """Return noise and what completes it to its norm as elements, shape (n_words, 1, width)."""
    parts = field.encode(noise), field.encode(completion(noise, bound))
    return np.concatenate(parts, axis=1)[:, None]


def completion(noise: NDArray[np.int64], bound: NoiseBound) -> NDArray[np.object_]:
    """Return six integers whose squares complete those of the noise to the bound; beyond it nothing does."""
    missing = max(0, bound.squared_norm - int(np.sum(noise.astype(object) ** 2)))
    roots = []
    for _ in range(N_ROOTS):
        roots.append(math.isqrt(missing))
        missing -= roots[-1] ** 2
    return np.array([*roots, *map(int, four_squares(np.array([missing]))[0])], dtype=object)


def uniform_masks(entropy: Entropy, log2_mask: int) -> NDArray[np.object_]:
    """Draw uniform masks in [-R, R), shape (N_PROJECTIONS,), R = 2^log2_mask. Secret."""
    n_bits = log2_mask + 1
    n_bytes = -(-n_bits // 8)
    drawn = entropy.read(N_PROJECTIONS * n_bytes)
    numbers = (int.from_bytes(drawn[i : i + n_bytes], "little") for i in range(0, len(drawn), n_bytes))
    return np.array([(number >> 8 * n_bytes - n_bits) - (1 << n_bits - 1) for number in numbers], dtype=object)
