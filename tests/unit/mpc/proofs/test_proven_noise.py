"""Noise of every party with a proof of its size: what is dealt honestly adds up, larger noise names who dealt it."""

import math
from unittest import mock

import numpy as np
import pytest
from sharings import corrupt
from virtual_time import run_in_virtual_time

from dp.mechanism.norm_proof import noise_delta
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import InconsistentSharesError, PeerError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.proofs import proven_noise as module
from mpc.proofs.noise_bound import NoiseBound
from mpc.proofs.norm_bound import N_PROJECTIONS
from mpc.proofs.products import ProvenComputation
from mpc.proofs.proven_noise import completion, proven_noise, uniform_masks
from mpc.protocol.session import COORDINATOR
from mpc.protocol.shared import SharedArray

FIELD, LARGEST, SIZE = ResidueField(3), 1000, 6


def noise_of(party: int) -> np.ndarray:
    return np.arange(SIZE) * 37 * party % 401 - 200


async def program(c, mine):
    share = None
    if c.holds_shares:
        share = (await proven_noise(c.exchange, "noise 0", mine, LARGEST)).reshape(FIELD.n_words, SIZE)
    return await c.open(SharedArray(FIELD, (SIZE,), c.t, None, share))


def run(values=None, n_parties=3, t=1, fault=None):
    options = {"fault": fault} if fault else {}
    network = LocalNetwork(
        local_names(n_parties, 1), deadline_s=10, entropy_of=lambda m: InsecureTestEntropy(f"noise {m}"), **options
    )
    given = {party: noise_of(party) for party in range(1, n_parties + 1)} | (values or {})
    kind = ProvenComputation
    ends = run_in_virtual_time(run_program(network, program, given, field=FIELD, n_parties=n_parties, t=t, kind=kind))
    return ends, network


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1), (5, 2)])
def test_noise_of_all_parties_adds_up_and_no_member_without_shares_takes_part(n_parties, t):
    ends, network = run(n_parties=n_parties, t=t)
    expected = sum(noise_of(party) for party in range(1, n_parties + 1))
    np.testing.assert_array_equal(ends[COORDINATOR].values, expected)
    assert n_parties + 1 not in {m.receiver for m in network.transcript if m.stage.startswith("noise 0")}


BOUND = NoiseBound.of_entries(SIZE, LARGEST)
NORM = math.isqrt(BOUND.squared_norm)


@pytest.mark.parametrize("error", [NORM + 1, 1 << 30, -(1 << 62)])
@pytest.mark.parametrize("liar", [1, 3])
def test_noise_beyond_the_bound_ends_the_job_and_names_the_party(error, liar):
    lie = np.zeros(SIZE, dtype=np.int64)
    lie[3] = error
    ends, network = run({liar: lie})
    for party in (1, 2, 3):
        assert isinstance(ends[party], PeerViolationError)
        assert ends[party].member == liar
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


def test_noise_at_the_bound_passes():
    lie = np.zeros(SIZE, dtype=np.int64)
    lie[3] = NORM
    ends, _ = run({1: lie})
    np.testing.assert_array_equal(ends[COORDINATOR].values, lie + noise_of(2) + noise_of(3))


@pytest.mark.parametrize("liar", [1, 2])
def test_a_number_that_is_small_modulo_the_primes_of_the_computation_alone_names_the_party(liar):
    """Squares that are right modulo each prime do not make a wrapped number small."""
    honest, rows = module._whole_row, iter(range(1, 4))

    def whole_row(field, noise, bound):
        whole = honest(field, noise, bound)
        if next(rows) == liar:  # in the order of the parties
            residues = [np.zeros(1, dtype=np.int64) for _ in field.primes]
            residues[-1][:] = 1  # an idempotent: its square is itself, and it is 0 to the computation
            field.accumulate(entry := whole[:, 0, :1].copy(), field.pack(residues))
            whole[:, 0, :1] = entry
        return whole

    with mock.patch.object(module, "_whole_row", whole_row):
        ends, _ = run()
    assert [end.member for end in ends.values() if isinstance(end, PeerViolationError)][:3] == [liar] * 3


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (4, 1)])
def test_a_share_dealt_wrongly_to_one_party_ends_the_job(n_parties, t):
    def fault(message):
        is_it = (message.stage, message.sender) == ("noise 0", 1)
        return (message.altered(corrupt(message.array, 0, 2, BOUND.field)),) if is_it else (message,)

    ends, _ = run(n_parties=n_parties, t=t, fault=fault)
    assert all(isinstance(ends[p], InconsistentSharesError | PeerViolationError) for p in range(1, n_parties + 1))
    assert isinstance(ends[COORDINATOR], PeerError)


@pytest.mark.parametrize("n_entries", [1, 55, 5050, 1 << 16])
@pytest.mark.parametrize("largest", [1, 1000, 1 << 40, (1 << 63) - 1])
def test_projections_of_noise_tell_less_than_2_to_the_minus_41_and_the_field_holds_them(n_entries, largest):
    bound = NoiseBound.of_entries(n_entries, largest)
    moved = math.isqrt(N_PROJECTIONS * bound.squared_operator_bound * bound.squared_norm) + 1
    assert moved << 41 <= 2 << bound.log2_mask
    assert 2 * moved / (2 << bound.log2_mask) <= noise_delta(1), "from one noise to nothing, and from there to another"
    assert bound.field.order > bound.whole_width * (3 * bound.largest_projection) ** 2
    assert bound.field.primes[:6] == ResidueField(6).primes


def test_squares_complete_noise_of_any_size_and_nothing_completes_what_is_beyond():
    for entries, largest in (([0, 0, 0], 5), ([3, -4], 5), ([(1 << 62) + 1, -(1 << 61)], (1 << 63) - 1)):
        noise = np.array(entries, dtype=np.int64)
        bound = NoiseBound.of_entries(len(entries), largest)
        squares = completion(noise, bound)
        assert sum(int(x) ** 2 for x in [*entries, *squares]) == bound.squared_norm
        assert bound.width + len(squares) == bound.dealt_width
    assert not completion(np.array([8, 0]), NoiseBound.of_entries(2, 5)).any()


def test_masks_are_uniform_over_their_range():
    bound = NoiseBound.of_entries(2, 3)
    drawn = np.concatenate([uniform_masks(InsecureTestEntropy(f"masks {i}"), bound.log2_mask) for i in range(20)])
    half = 1 << bound.log2_mask
    assert all(-half <= int(z) < half for z in drawn)
    shares = np.array([float(z) / half for z in drawn])
    assert abs(shares.mean()) < 0.05
    assert abs(shares.std() - 1 / math.sqrt(3)) < 0.03
