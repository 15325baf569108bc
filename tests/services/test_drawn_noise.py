"""An analysis that draws other noise than it planned, at a party of a real federation: mutual TLS, ledgers."""

from dataclasses import replace

from federation import pca_job, random_values, tables_of
from watched_services import watched_services

from analyses.registry import ANALYSES
from transport.calls.party_client import Failed

PARTIES = ("bank", "hospital", "telco")
VALUES = {name: random_values((60, 2), seed) for seed, name in enumerate(PARTIES)}
HONEST = ANALYSES["pca"]


class Rogue:
    """What the analysis sees of its gate, but for how it draws."""

    def __init__(self, gate):
        self._gate = gate

    def __getattr__(self, name):
        return getattr(self._gate, name)


class DrawsHalf(Rogue):
    async def draw(self, release):
        return await self._gate.draw(replace(release, party_mu=release.party_mu // 4 * 2))


class DrawsNothing(Rogue):
    async def draw(self, release):
        return 0 * release.draw(self._gate.entropy)


async def test_no_share_of_it_reaches_the_coordinator(tmp_path, monkeypatch):
    def use(rogue):
        async def party(session, plan, table):
            return await HONEST.party(rogue(session), plan, table)

        monkeypatch.setitem(ANALYSES, "pca", replace(HONEST, own_party=party))

    tables = tables_of(VALUES, tmp_path)
    (tmp_path / "run").mkdir()
    async with watched_services(tmp_path / "run", tables, monkeypatch) as services:
        for rogue in (DrawsHalf, DrawsNothing):
            use(rogue)
            seen = await services.run(pca_job(PARTIES))
            assert seen.view.state == "FAILED"
            assert all(isinstance(events[-1], Failed) for events in seen.events.values())
            assert seen.received == {}
            assert seen.view.result_json == ""
        use(Rogue)
        seen = await services.run(pca_job(PARTIES))
        assert seen.view.state == "DONE"
        assert set(seen.received) == set(PARTIES)
