"""All that one party sees of a proof, over all randomness of a tiny field: as often for one secret as for any other."""

import itertools

import numpy as np
import pytest

from mpc.arithmetic.balanced import balanced
from mpc.arithmetic.field import ResidueField
from mpc.proofs.folding import Factors, Folded, Schedule, Weights, next_claim, weighted_claims, weighted_trace

P = 3
FIELD = ResidueField.over([P])
SCHEDULE = Schedule(1)
N_ANSWERS = sum((k + (i == len(SCHEDULE.rows) - 1)) ** 2 for i, k in enumerate(SCHEDULE.rows))
PARTIES = (1, 2, 3)
SEES = 2
"""The party that looks; t = 1."""


def elements(values):
    return FIELD.pack([np.asarray(values, dtype=np.int64) % P])


def line_through(secret, share_of_the_one_that_looks):
    """Shares of all parties, on the line that gives one of them this share."""
    slope = (share_of_the_one_that_looks - secret) * pow(SEES, -1, P)
    return {party: (secret + slope * party) % P for party in PARTIES}


def views(x, y, coin, *, masked=True):
    """How often the party sees what, if it holds the shares 1, 2 and 1 of x, y and their product."""
    drawn = np.array(list(itertools.product(range(P), repeat=4 + N_ANSWERS))).T
    masks, mask_slopes, slopes = drawn[:2] * masked, drawn[2:4], drawn[4:]
    n = drawn.shape[1]
    rho, s, *chosen = coin
    weights = Weights(np.full((1, n, 1), rho, float), elements(np.full((n, 1), s)))
    left, right, claims = (line_through(v, share) for v, share in ((x, 1), (y, 2), (x * y, 1)))
    prover = Folded(FIELD, SCHEDULE, [elements([x])], [elements([y])], elements(masks))
    folded = {
        i: Folded(FIELD, SCHEDULE, [elements([left[i]])], [elements([right[i]])], elements(masks + mask_slopes * i))
        for i in PARTIES
    }
    claim = {i: weighted_claims(FIELD, SCHEDULE, weights, [elements([claims[i]])]) for i in PARTIES}
    seen, start = [masks + mask_slopes * SEES], 0
    for number, n_rows in enumerate(SCHEDULE.rows):
        is_last = number == len(SCHEDULE.rows) - 1
        size = n_rows + is_last
        answer = FIELD.residues(prover.answer(weights))[0].astype(np.int64)
        slope = slopes[start : start + size * size].T.reshape(n, size, size)
        start += size * size
        w, v = ([1, *chosen[j : j + 1]] if is_last else chosen[j : j + 1] for j in (2 * number, 2 * number + 1))
        factors = Factors(*(balanced(FIELD, elements(np.tile(part, (n, 1)))) for part in (w, v)))
        for i in PARTIES:
            share = elements(answer + slope * i)
            if i == SEES:
                seen.append((answer + slope * i).reshape(n, -1).T)
            traced = None if number else weights.rows
            zero = FIELD.subtract(weighted_trace(FIELD, share, traced, masked=is_last), claim[i])
            seen.append(FIELD.residues(zero)[0][None])
            claim[i] = next_claim(FIELD, share, factors)
        for one in (prover, *folded.values()):
            one.fold(weights, factors)
    for i in PARTIES:
        seen += [FIELD.residues(folded[i].last())[0], FIELD.residues(claim[i])[0][None]]
    whole = np.concatenate(seen).astype(np.int64) % P
    assert len(whole) < 40  # so that a view is one number
    return tuple(part.tolist() for part in np.unique(P ** np.arange(len(whole)) @ whole, return_counts=True))


@pytest.mark.parametrize("coin", [(1, 1, 1, 1, 1, 1), (1, 2, 0, 1, 2, 2)])
def test_a_party_sees_the_same_of_a_proof_as_often_whatever_the_secrets_are(coin):
    """What is dealt to it, and all shares that are opened, of a prover that is no party."""
    first = views(0, 0, coin)
    assert sum(first[1]) == P ** (4 + N_ANSWERS)
    for x, y in ((1, 0), (0, 2), (1, 2), (2, 2)):
        assert views(x, y, coin) == first


def test_without_masks_it_would_see_another_one():
    coin = (1, 1, 1, 1, 1, 1)
    assert views(1, 2, coin, masked=False) != views(0, 0, coin, masked=False)
