import numpy as np
import pytest

from analyses.rows import held as held_rows
from analyses.rows.held import share_rows
from mpc.arithmetic.field import ResidueField
from mpc.arithmetic.shamir import ShamirScheme
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.exchange import ShareExchange, agree_pairwise_secrets

FIELD = ResidueField(3)


async def shares_of(blocks, n_parties=3, n_owners=0):
    """Member number to its share, each owner's block dealt by member number."""
    network = LocalNetwork(local_names(n_parties, n_owners), deadline_s=20.0)
    members = range(1, n_parties + n_owners + 1)
    widths = {owner: block.shape[1] for owner, block in blocks.items()}
    n_rows = len(next(iter(blocks.values())))

    def member(number):
        async def run(session):
            secrets = await agree_pairwise_secrets(session, members, n_parties)
            exchange = ShareExchange(session, FIELD, n_parties, 1, secrets)
            mine = blocks[number].__getitem__ if number in blocks else None
            return await share_rows(exchange, widths, n_rows, mine)

        return run

    return await network.run({number: member(number) for number in members})


@pytest.mark.parametrize("n_rows", [0, 1, 6, 7, 20])
async def test_any_two_shares_make_the_joint_table_block_by_block(n_rows, monkeypatch):
    monkeypatch.setattr(held_rows, "ROWS_PER_BLOCK", 7)
    rng = np.random.default_rng(3)
    blocks = {2: rng.integers(-9, 9, (n_rows, 2)), 1: rng.integers(-9, 9, (n_rows, 3))}
    shares = await shares_of(blocks)
    assert shares[3].shape == (1, n_rows, 5)
    for pair in ((1, 2), (2, 3), (1, 3)):
        words = ShamirScheme(FIELD, 3, 1).recombine({party: shares[party] for party in pair})
        assert (FIELD.decode(words) == np.hstack([blocks[2], blocks[1]])).all()


async def test_an_owner_that_holds_no_shares_deals_and_gets_nothing():
    blocks = {4: np.array([[5], [-6]]), 1: np.array([[1], [2]])}
    shares = await shares_of(blocks, n_owners=1)
    assert shares[4] is None
    words = ShamirScheme(FIELD, 3, 1).recombine({party: shares[party] for party in (1, 2)})
    assert FIELD.decode(words).tolist() == [[5, 1], [-6, 2]]
