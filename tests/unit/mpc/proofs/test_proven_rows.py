"""Rows that are proven before they are yielded: the same rows, whoever deals and computes; wrong shares end the job."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from virtual_time import run_in_virtual_time

from dp.mechanism.norm_proof import MaskedProjections
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.errors import InconsistentSharesError, PeerError, PeerSilentError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.local.simulation import run_program
from mpc.proofs import norm_proof
from mpc.proofs.norm_bound import N_PROJECTIONS, EntryBounds, NormBound, primes_needed
from mpc.proofs.norm_proof import COMBINATIONS_STAGE, MASKS_STAGE, PROJECTIONS_STAGE
from mpc.proofs.proven_rows import ROWS_PER_BLOCK, ProvenRows
from mpc.protocol.session import COORDINATOR

ROSTERS = [(3, 1, 0), (3, 1, 2), (4, 1, 1), (5, 2, 0)]
"""N, t, owners without shares."""


RANGES = [9, 1]


def bounds_of(owners, n_rows, *, kind="norms"):
    if kind == "entries":
        return {owner: EntryBounds.of(RANGES, n_rows) for owner in owners}
    if kind == "indicators":
        return {owner: NormBound(3, 1, n_rows, is_one_hot=True) for owner in owners}
    bit = 1 if kind == "bits" else None
    return {owner: NormBound(2, 200 + owner, n_rows, bit=bit) for owner in owners}


def rows_of(owners, n_rows, *, kind="norms"):
    rng = np.random.default_rng(3)
    if kind == "entries":
        return {o: rng.integers(0, np.array(RANGES) + 1, (n_rows, 2)) for o in owners}
    if kind == "bits":
        return {o: np.column_stack([rng.integers(-14, 15, n_rows), rng.integers(0, 2, n_rows)]) for o in owners}
    if kind == "indicators":
        return {o: (rng.integers(0, 4, n_rows)[:, None] == np.arange(3)).astype(np.int64) for o in owners}
    return {o: rng.integers(-10, 11, (n_rows, 2)) for o in owners}


def run(n_parties, t, n_owners, n_rows, *, kind="norms", fault=None, in_step=False):
    owners = network_owners(n_parties, n_owners)
    bounds, rows = bounds_of(owners, n_rows, kind=kind), rows_of(owners, n_rows, kind=kind)
    field = ResidueField(primes_needed(max(bound.order_needed for bound in bounds.values())))

    async def gram(c, mine):
        """The products of all columns of two owners, from the rows as they are yielded."""
        widths = {owner: bound.width for owner, bound in bounds.items()}
        if c.me == COORDINATOR:
            return await c.open(c.outline((widths[owners[0]], widths[owners[1]]), 2 * t, 1 << 40))
        masks = [
            MaskedProjections(b.largest_squared_norm, b.squared_operator_bound, N_PROJECTIONS, b.mask_variance)
            for b in bounds.values()
        ]
        c.expect(bounds, masks[owners.index(c.me)] if c.me in owners else None)
        given = None if mine is None else (lambda block: mine[block])
        total = c.public(np.zeros((widths[owners[0]], widths[owners[1]]), np.int64))
        if in_step:
            shapes = {owner: (width,) for owner, width in widths.items()}
            async for blocks in c.rows_in_step(shapes, n_rows, given, height=7, bound=20):
                total = total + blocks[owners[0]].T @ blocks[owners[1]]
        else:
            async for first, second in c.rows(widths, n_rows, given, height=7):
                total = total + first.T @ second
        return await c.open(replace(total, bound=1 << 40))

    options = {"fault": fault} if fault else {}
    network = LocalNetwork(
        local_names(n_parties, n_owners and 1),
        deadline_s=10,
        entropy_of=lambda m: InsecureTestEntropy(f"member {m}"),
        **options,
    )
    ends = run_in_virtual_time(run_program(network, gram, rows, field=field, n_parties=n_parties, t=t, kind=ProvenRows))
    return ends, network, rows[owners[0]].T @ rows[owners[1]]


@pytest.mark.parametrize(
    ("kind", "in_step"),
    [("norms", False), ("norms", True), ("indicators", True), ("bits", False), ("entries", False), ("entries", True)],
)
@pytest.mark.parametrize(("n_parties", "t", "n_owners"), ROSTERS)
def test_the_rows_are_those_that_were_dealt(n_parties, t, n_owners, kind, in_step):
    ends, _, right = run(n_parties, t, n_owners, 25, kind=kind, in_step=in_step)
    assert np.array_equal(ends[COORDINATOR].values, right)


def test_tables_of_several_blocks_and_of_one_row_are_proven():
    for n_rows in (1, ROWS_PER_BLOCK + 3):
        ends, _, right = run(3, 1, 0, n_rows)
        assert np.array_equal(ends[COORDINATOR].values, right)


def altered(stage, receiver, sender, change):
    def fault(message):
        if (message.stage, message.receiver, message.sender) != (stage, receiver, sender) or message.sequence:
            return (message,)
        array = message.array.copy()
        change(array)
        return (message.altered(array),)

    return fault


def add_one(array):
    flat = array.reshape(-1)
    flat[0] = flat[0] + 1 if int(flat[0]) & ((1 << 21) - 1) < 2_000_000 else flat[0] - 1


def out_of_field(array):
    array.reshape(-1)[0] = (1 << 64) - 1


STAGES = [("computation/table", 3, 1), (MASKS_STAGE, 3, 1), (PROJECTIONS_STAGE, 1, 3)]


@pytest.mark.parametrize(("stage", "receiver", "sender"), STAGES)
@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2)])
def test_a_wrong_share_ends_the_job_before_anything_is_opened(n_parties, t, stage, receiver, sender):
    """A dealer's shares on no polynomial of degree t, also where the surplus could correct one: nobody is named."""
    receiver = n_parties if receiver == 3 and sender == 1 else receiver
    ends, network, _ = run(n_parties, t, 0, 25, fault=altered(stage, receiver, sender, add_one))
    assert isinstance(ends[1], InconsistentSharesError)
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


@pytest.mark.parametrize(("stage", "receiver", "sender"), STAGES)
def test_what_is_no_element_ends_the_job_and_names_its_sender(stage, receiver, sender):
    ends, network, _ = run(3, 1, 0, 25, fault=altered(stage, receiver, sender, out_of_field))
    error = ends[receiver]
    assert isinstance(error, PeerError | InconsistentSharesError)
    assert not isinstance(error, PeerViolationError) or error.member == sender
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2)])
def test_projections_of_which_shares_do_not_come_end_the_job(n_parties, t):
    """Of whoever hears only t liars, as the network delays the others, liars would choose what is opened."""
    honest = range(1, n_parties - t + 1)

    def lost(message):
        if message.stage != PROJECTIONS_STAGE or message.sender not in honest:
            return (message,)
        return () if message.receiver in honest else (message.delayed(9.0),)  # liars wait longer than others

    ends, network, _ = run(n_parties, t, 0, 25, fault=lost)
    assert all(isinstance(ends[party], PeerSilentError) for party in honest)
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


@pytest.fixture
def dealt_combinations(monkeypatch):
    """Of few rows, too, dealers deal the combinations."""
    monkeypatch.setattr(norm_proof, "FEW_ROWS", 0)


@pytest.mark.usefixtures("dealt_combinations")
@pytest.mark.parametrize("kind", ["norms", "indicators", "bits", "entries"])
@pytest.mark.parametrize(("n_parties", "t", "n_owners"), ROSTERS)
def test_the_rows_are_those_that_were_dealt_where_their_combinations_are(n_parties, t, n_owners, kind):
    ends, network, right = run(n_parties, t, n_owners, 25, kind=kind)
    assert np.array_equal(ends[COORDINATOR].values, right)
    assert {m.sender for m in network.transcript if m.stage == COMBINATIONS_STAGE} == set(
        network_owners(n_parties, n_owners)
    )


@pytest.mark.usefixtures("dealt_combinations")
@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2)])
def test_a_wrong_share_of_combinations_ends_the_job_and_nobody_is_named(n_parties, t):
    ends, network, _ = run(n_parties, t, 0, 25, fault=altered(COMBINATIONS_STAGE, n_parties, 1, add_one))
    assert isinstance(ends[1], InconsistentSharesError)
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


@pytest.mark.usefixtures("dealt_combinations")
@pytest.mark.parametrize(("n_parties", "t"), [(3, 1), (5, 2)])
@pytest.mark.parametrize("prime", [0, -1])
def test_combinations_of_other_rows_end_the_job_and_name_their_dealer(monkeypatch, n_parties, t, prime):
    """One number of 600 is another modulo all primes but one, and no projection counts as beyond its bound."""
    combined, lied = norm_proof.RowFactors.combined_integers, []

    def other(self, rows):
        found, field = combined(self, rows), ResidueField(2)
        if not lied:
            lied.append(prime)
            found[3, 1] += field.primes[prime]
            monkeypatch.setattr(NormBound, "largest_projection", field.order)
        return found

    monkeypatch.setattr(norm_proof.RowFactors, "combined_integers", other)
    ends, network, _ = run(n_parties, t, 0, 25)
    named = {end.member for end in ends.values() if isinstance(end, PeerViolationError)}
    assert lied
    assert len(named) == 1
    assert named <= {1, 2}
    assert not [m for m in network.transcript if m.receiver == COORDINATOR and "opening" in m.stage]


def network_owners(n_parties, n_owners):
    return (1, 2) if not n_owners else (2, n_parties + 1)


def test_a_row_beyond_its_bound_is_completed_by_anything_without_an_error():
    bound = NormBound(2, 100, 10)
    rows = np.array([[10, 0], [0, 0], [11, 0], [1 << 31, 1 << 31], [-(1 << 62), 5]])
    squares = bound.completion(rows)
    assert squares.shape == (5, 4)
    assert ((squares[:2] ** 2).sum(axis=1) == [0, 100]).all()
    one_hot = NormBound(2, 1, 10, is_one_hot=True)
    assert one_hot.completion(np.array([[0, 1], [0, 0], [1, 1]])).tolist() == [[0], [1], [-1]]
    entries = EntryBounds.of([10, 0], 10)
    squares = entries.completion(np.array([[10, 0], [3, 0], [11, 1], [-(1 << 30), 0]])).reshape(4, 2, 4)
    assert (squares**2).sum(axis=2).tolist() == [[0, 0], [84, 0], [0, 0], [0, 0]]
    beside = NormBound(2, 100, 10, bit=1).completion(np.array([[10, 1], [0, 0], [7, 1]]))
    assert (beside**2).sum(axis=1).tolist() == [0, 100, 51]


def test_what_a_party_sees_of_projections_does_not_depend_on_the_rows_but_for_the_projections_themselves():
    """All polynomials of a row and of a mask in GF(7): with the same masked projection, each view is seen as often."""
    field, factor = ResidueField.over([7]), 3
    scheme = ShamirScheme(field, 3, 1)

    def views(value, projection):
        seen = []
        mask = (projection - factor * value) % 7
        for a, b in product(range(7), range(7)):
            shares = [[(secret + slope * x) % 7 for x in scheme.parties] for secret, slope in ((value, a), (mask, b))]
            opened = [(factor * y + z) % 7 for y, z in zip(*shares, strict=True)]
            seen.append((shares[0][1], shares[1][1], *opened))
        return sorted(seen)

    for projection in range(7):
        assert len({str(views(value, projection)) for value in range(7)}) == 1
    assert views(1, 2) != views(1, 3)
