"""A pseudorandom function that a leader evaluates at chosen inputs through a third party, who learns no input.

The function belongs to an owner: F(b, x) = N_k(M_s(b, x), b) of a bin b and an id x, with M_s a MAC under a key s that
leader and owner have in common, and N_k a MAC under a key k that owner and helper have in common.

    leader -> helper    one block per bin: M_s(b, x) for the id x in bin b, random bits where there is none
    helper -> leader    N_k of each and of its bin, which the helper puts in itself

Views, where each stands alone (t = 1):
    helper              B blocks that are pseudorandom, as their inputs (b, x) differ and s is unknown to it; a function
                        of B alone. It does not learn which bins are empty.
    leader              N_k at B inputs, one to a bin: pseudorandom, as k is unknown to it. It knows F at (b, x) for one
                        id x in bin b and nowhere else, also where it deviates: whatever it sends in the place of bin b,
                        the answer is about that bin, and tells nothing of any other input. In particular it does not
                        know F at the other two bins where x might be, nor F of another id in b.
    owner               nothing; it computes F at as many inputs as it likes.
Together, leader and helper can evaluate F anywhere, and owner and helper can try ids on the blocks.

Keys are drawn from the pairwise secrets of the job, so they are new in each job.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from entropy.stream import KEY_BYTES
from mpc.errors import LocalFaultError
from mpc.matching.bins import id_blocks
from mpc.matching.block_prf import BLOCK_BYTES, Bytes, block_of_numbers, mac
from mpc.protocol.pairwise import PairwiseSecret
from mpc.protocol.session import Session

STAGE = "matching/blinded"


async def evaluate_by_helper(
    session: Session,
    secrets: Mapping[int, PairwiseSecret],
    *,
    owner: int,
    helper: int,
    ids: NDArray[np.uint8],
    bin_of: NDArray[np.int64],
    n_bins: int,
) -> Bytes:
    """Return an owner's function at my id in each bin, shape (n_bins, 16); unrelated blocks in empty bins.

    Args:
        session: my end; I am the leader.
        secrets: pairwise, of the job.
        owner: party whose function it is.
        helper: a compute party, neither the owner nor I.
        ids: mine, shape (n, 32).
        bin_of: the bin of each, all different; shape (n,).
        n_bins: B.

    Raises:
        PeerError: the helper is silent, drops out or sends something else.

    Cost: 1 round trip, 16 B bytes each way.
    """
    blinded = np.frombuffer(session.entropy.read(n_bins * BLOCK_BYTES), dtype=np.uint8).reshape(n_bins, BLOCK_BYTES)
    blinded = blinded.copy()
    blinded[bin_of] = await session.compute(_blinded, _leaders_key(secrets, session.me, owner), ids, bin_of)
    await session.send(helper, _stage(owner), blinded)
    return await session.receive(helper, _stage(owner), blinded.shape, np.uint8)


async def help_evaluate(
    session: Session, secrets: Mapping[int, PairwiseSecret], *, leader: int, owner: int, n_bins: int
) -> None:
    """Evaluate an owner's function at what the leader sends; I am the helper. Arguments as of `evaluate_by_helper`."""
    key = _helpers_key(secrets, owner, session.me)
    blinded = await session.receive(leader, _stage(owner), (n_bins, BLOCK_BYTES), np.uint8)
    await session.send(leader, _stage(owner), await session.compute(_of_bins, key, blinded, np.arange(n_bins)))


def evaluate_own(
    secrets: Mapping[int, PairwiseSecret],
    *,
    me: int,
    leader: int,
    helper: int,
    ids: NDArray[np.uint8],
    candidates: NDArray[np.int64],
) -> Bytes:
    """Return my function at each of my ids in each of its candidate bins, shape (n, candidates, 16).

    Args:
        secrets: pairwise, of the job.
        me: the owner.
        leader: the agreed leader.
        helper: the agreed helper.
        ids: mine, shape (n, 32).
        candidates: bins of each, shape (n, number of candidates).
    """
    blind, evaluate = _leaders_key(secrets, leader, me), _helpers_key(secrets, me, helper)
    columns = [_of_bins(evaluate, _blinded(blind, ids, bins), bins) for bins in candidates.T]
    return np.stack(columns, axis=1)


def _blinded(key: bytes, ids: NDArray[np.uint8], bins: NDArray[np.int64]) -> Bytes:
    return mac(key, *id_blocks(ids), block_of_numbers(bins))


def _of_bins(key: bytes, blinded: Bytes, bins: NDArray[np.int64]) -> Bytes:
    """Return the function of blinded blocks in these bins, which the helper puts in itself."""
    return mac(key, blinded, block_of_numbers(bins))


def _leaders_key(secrets: Mapping[int, PairwiseSecret], leader: int, owner: int) -> bytes:
    """Return s. `secrets` are those of the leader or of the owner."""
    return _key(secrets, leader, owner, "matching/blinding")


def _helpers_key(secrets: Mapping[int, PairwiseSecret], owner: int, helper: int) -> bytes:
    """Return k. `secrets` are those of the owner or of the helper."""
    return _key(secrets, owner, helper, "matching/function")


def _key(secrets: Mapping[int, PairwiseSecret], first: int, second: int, label: str) -> bytes:
    secret = secrets.get(first) or secrets.get(second)  # one of the two am I
    if secret is None:
        raise LocalFaultError(f"members {first} and {second} have no secret in common with this one")
    return secret.stream(first, second, label, 0).read(KEY_BYTES)


def _stage(owner: int) -> str:
    return f"{STAGE} for {owner}"
