"""Bits that no t parties know, with a proof that those who dealt them dealt bits: the masks of comparisons.

The bits of a mask are dealt as signs (`mpc.protocol.operations.bits`), and each of t + 1 dealers proves that each of
its numbers is 1 or -1 *as an integer*. That a square is 1 modulo each prime does not say so: modulo k primes 2^k
numbers have the square 1, and one that is 1 modulo some and -1 modulo others makes a comparison a fraction, beyond
every bound. So signs are proven as rows are (`mpc.proofs.norm_bound`): by projections an entry is at most 3 M in size,
with 9 M^2 < Q, and then its square is 1 as an integer.

The high part of a mask, which a dealer draws from [0, 2^k), is made of k such bits: were it larger, what is opened
could wrap, and the answer of a comparison be no bit.

**What the projections tell of a mask is nothing**, within 2^-47: their own masks are uniform in [-R, R). Replace the
signs of one masked value, of which there are 126 at most as they fit a field of 126 bits, by others: each projection
moves by 252 at most, and all K of them in total variation distance by 252 K / (2 R) < 2^-47, however many signs the
proof is about. Nothing is charged for it, but each masked opening counts so much more (`DISTANCE`).

**An honest dealer passes**: each |V_k| is at most R + n = M, for n signs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy import KeyStream
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.moduli import PRIMES
from mpc.arithmetic.words import Words
from mpc.errors import LocalFaultError
from mpc.proofs.norm_bound import NormBound
from mpc.proofs.norm_proof import DealtRows, ProofOfWhat, prove_norms
from mpc.proofs.proven_noise import uniform_masks
from mpc.protocol.computation import Computation
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import Session
from mpc.protocol.shared import SharedArray

LOG2_MASK = 61
"""Binary logarithm of R."""

WIDTH = 64
"""Signs that stand in one row while they are proven: rows and columns have random factors of their own."""

MOST_ROWS = 1 << 16
"""Rows of one proof at most; more signs are proven by several."""

DISTANCE = 2.0**-46
"""What projections add to the advantage of a masked opening: the distance above, on the way to other signs and back."""


@dataclass(frozen=True)
class SignBound(NormBound):
    """What is proven of rows of numbers that are 1 or -1; see `NormBound`. Nothing completes them."""

    @classmethod
    def of_rows(cls, n_rows: int) -> "SignBound":
        """Return the bound of so many rows of signs."""
        return cls(WIDTH, WIDTH, n_rows)

    @property
    def dealt_width(self) -> int:
        """See `NormBound`."""
        return self.width

    @property
    def whole_width(self) -> int:
        """See `NormBound`."""
        return self.width

    @property
    def squared_norms(self) -> tuple[int, ...]:
        """See `NormBound`: each sign is a part by itself."""
        return (1,) * self.width

    @property
    def largest_projection(self) -> int:
        """See `NormBound`."""
        return (1 << LOG2_MASK) + self.most_rows * self.width

    @property
    def order_needed(self) -> int:
        """See `NormBound`: nothing is added up."""
        return 9 * self.largest_projection**2


def field_of_signs() -> ResidueField:
    """Return the field in which signs are proven: its first primes are those of any job's."""
    return ResidueField(len(PRIMES))


def drawn_signs(session: Session, n_signs: int) -> NDArray[np.int64]:
    """Draw my signs, a multiple of 64, shape (n_signs,). Secret."""
    words = KeyStream(session.entropy.read(32)).words(n_signs // 64)
    return 1 - 2 * np.unpackbits(words.view(np.uint8)).astype(np.int64)


def rows_of(n_signs: int) -> list[int]:
    """Return the rows of each proof about so many signs."""
    n_rows = -(-n_signs // WIDTH)
    return [min(MOST_ROWS, n_rows - start) for start in range(0, n_rows, MOST_ROWS)]


async def proven_signs(exchange: ShareExchange, stage: str, n_signs: int) -> list[SharedArray]:
    """Return uniform signs of each of t + 1 dealers, shape (n_signs,), degree t, in the field of the exchange.

    Args:
        exchange: dealing and taking of shares of the computation.
        stage: begins the names of stages, unique within the job.
        n_signs: how many.

    Raises:
        LocalFaultError: the field of the exchange has other primes than the first ones; nothing has been dealt.
        PeerViolationError: names a dealer of what is no sign.
        InconsistentSharesError, PeerError: see `prove_norms`.

    Privacy: `DISTANCE`. Soundness: below 2^-40 for each dealer and proof (`prove_norms`).
    Cost: 1 round, and those of `prove_norms`; a dealer deals an element of six primes for each sign.
    """
    session, field, primes = exchange.session, field_of_signs(), exchange.field.primes
    if primes != field.primes[: len(primes)]:
        raise LocalFaultError("bits are proven in fields of the first primes alone, and this field has others")
    wide = ShareExchange(session, field, exchange.n_parties, exchange.t, exchange.secrets)
    dealers, proofs = range(1, exchange.t + 2), rows_of(n_signs)
    mine = drawn_signs(session, WIDTH * sum(proofs)) if session.me in dealers else None
    dealt = await Computation(wide, stage).inputs(dict.fromkeys(dealers, (WIDTH * sum(proofs),)), mine, bound=1)
    start = 0
    for number, n_rows in enumerate(proofs if exchange.am_receiver else ()):
        part, shape = slice(start, start := start + WIDTH * n_rows), (field.n_words, n_rows, WIDTH)
        held = {
            dealer: array.share[:, part].reshape(shape) for dealer, array in dealt.items() if array.share is not None
        }
        own = None if mine is None else field.encode(mine[part]).reshape(shape)
        masks = None if mine is None else uniform_masks(session.entropy, LOG2_MASK)
        integers = None if mine is None else mine[part].reshape(n_rows, WIDTH)
        rows = DealtRows(dict.fromkeys(dealers, SignBound.of_rows(n_rows)), n_rows, held, own, masks, integers)
        what = ProofOfWhat.under(f"{stage} {number}", "bits of masks")
        await prove_norms(wide, rows, None, what)

    def narrowed(words: Words) -> Words:
        return exchange.field.pack(field.residues(words[:, :n_signs])[: len(primes)])

    shares = [array.share for array in dealt.values()]
    found = [None if share is None else await session.compute(narrowed, share) for share in shares]
    return [SharedArray(exchange.field, (n_signs,), exchange.t, 1, share) for share in found]
