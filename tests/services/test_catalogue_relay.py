"""The coordinator hands on what parties list, and says what is wrong with what it cannot hand on."""

import pytest
from coordinator_setup import PARTIES, running_coordinator

from analyses.job.listing import ListedTable, Listing
from analyses.job.schema import BlockSchema, ColumnSchema
from analyst.catalogue import Catalogue
from service.errors import NotAllowedError
from service.identity import Role


def listing(party, n_columns=2, of=None):
    columns = tuple(ColumnSchema(name=f"column-{at}", lower=0.0, upper=1.0) for at in range(n_columns))
    block = BlockSchema(party=of or party, columns=columns)
    one = ListedTable(name="people", block=block, usual=tuple(c.name for c in columns), admitted={"pca": "owner"})
    return Listing(party=party, tables=(one,)).canonical_json()


async def test_every_party_is_asked_for_the_analyst_and_answers_of_any_size_come_back(tmp_path):
    async with running_coordinator(tmp_path) as setup:
        for name, party in setup.parties.items():
            party.listing = listing(name, n_columns=40_000 if name == PARTIES[0] else 2)
        assert len(setup.parties[PARTIES[0]].listing) > 2_000_000
        async with setup.client() as client:
            catalogue = Catalogue.of(await client.tables())
        assert {name: party.analysts for name, party in setup.parties.items()} == {name: ["ada"] for name in PARTIES}
        assert list(catalogue.parties) == list(PARTIES)
        assert len(catalogue.parties[PARTIES[0]]["people"].usual) == 40_000
        assert catalogue.problems == {}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("no JSON", "lists cannot be read"),
        ('{"party": "x", "tables": [{"name": "\\u202e"}]}', "lists cannot be read"),
        (listing("somebody"), "lists tables of another party"),
        (listing(PARTIES[0], of="somebody"), "lists tables of another party"),
        ("x" * (4 << 20) + "x", "it lists more than 4194304 bytes"),
    ],
)
async def test_a_party_that_lists_nonsense_is_a_problem_of_its_own(tmp_path, said, words):
    async with running_coordinator(tmp_path) as setup:
        for name, party in setup.parties.items():
            party.listing = listing(name)
        setup.parties[PARTIES[0]].listing = said
        async with setup.client() as client:
            catalogue = Catalogue.of(await client.tables())
        assert words in catalogue.problems[PARTIES[0]]
        assert "\u202e" not in catalogue.problems[PARTIES[0]]
        assert list(catalogue.parties) == list(PARTIES[1:])


async def test_only_analysts_of_the_list_are_told(tmp_path):
    async with running_coordinator(tmp_path) as setup:
        for name, role in (("eve", Role.ANALYST), (PARTIES[0], Role.PARTY)):
            async with setup.client(name, role) as client:
                with pytest.raises(NotAllowedError):
                    await client.tables()
        assert not any(party.analysts for party in setup.parties.values())
