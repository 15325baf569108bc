"""Members that join each other without a coordinator: real servers and certificates, all in one event loop."""

import asyncio
import shutil

import numpy as np
import pytest
from deadlines import GENEROUS_S

from demo.local_mesh import write_mesh
from mpc.arithmetic.field import ResidueField
from mpc.errors import PeerError, PeerLostError, PeerViolationError
from mpc.protocol.computation import Computation
from service.errors import UnreachableError
from service.server import ListenError
from service.tls import CredentialsError
from transport.messages import mesh
from transport.messages.mesh import MeshConfig, join_mesh

NAMES = ("alice", "bob", "carol")


@pytest.fixture
def configs(tmp_path) -> dict[str, MeshConfig]:
    return {name: MeshConfig.load(file) for name, file in write_mesh(tmp_path, NAMES, deadline_s=GENEROUS_S).items()}


async def run_all(configs, body, programs=None):
    """Run `body(session)` at every member; return what each returned or raised, by name."""

    async def member(config):
        async with join_mesh(config, program=(programs or {}).get(config.name, "sum")) as session:
            return await body(session)

    async with asyncio.timeout(GENEROUS_S):
        results = await asyncio.gather(*map(member, configs.values()), return_exceptions=True)
    return dict(zip(configs, results, strict=True))


async def squares(session):
    c = await Computation.start(session, ResidueField(1), n_parties=3, t=1)
    given = await c.inputs({1: (2,), 2: (2,)}, [session.me, 10], bound=100)
    opened = await c.open(await c.multiply(given[1], given[2]), (1, 2, 3))
    return opened.values.tolist()


async def test_members_compute_on_shares(configs):
    assert await run_all(configs, squares) == {name: [2, 100] for name in NAMES}


async def test_every_run_has_a_job_of_its_own_on_which_all_agree(configs):
    async def job_id(session):
        return session.job_id

    runs = [await run_all(configs, job_id) for _ in range(2)]
    assert [len(set(run.values())) for run in runs] == [1, 1]
    assert runs[0] != runs[1]


async def test_a_member_with_another_program_is_named_at_the_start(configs):
    async def never(session):
        raise AssertionError("the program was started")

    results = await run_all(configs, never, {"bob": "product"})
    for name in ("alice", "carol"):
        assert isinstance(results[name], PeerError)
    assert any(isinstance(results[n], PeerViolationError) and "bob runs another" in str(results[n]) for n in NAMES)


async def test_a_file_that_lists_members_in_another_order_is_noticed(configs):
    swapped = configs["carol"].model_copy(update={"members": configs["carol"].members[::-1]})
    results = await run_all(configs | {"carol": swapped}, squares)
    assert all(isinstance(result, PeerError) for result in results.values())
    assert any("lists other members" in str(result) for result in results.values())


async def test_a_member_that_never_comes_is_named_in_time(configs, monkeypatch):
    async def reach_carol_briefly(channel, *, peer, address, deadline_s):
        await reach(channel, peer=peer, address=address, deadline_s=1.5 if peer == "carol" else GENEROUS_S)

    reach = mesh.wait_until_reachable
    monkeypatch.setattr(mesh, "wait_until_reachable", reach_carol_briefly)
    present = {name: configs[name] for name in ("alice", "bob")}
    results = await run_all(present, squares)
    for result in results.values():
        assert isinstance(result, UnreachableError)
        assert "carol" in str(result)


async def test_when_one_gives_up_the_others_hear_it_at_once_and_no_detail(configs):
    async def body(session):
        if session.me == 2:
            await session.receive(1, "first", (1,))
            raise ValueError("salary 4711")
        if session.me == 1:
            await session.send(2, "first", np.zeros(1, np.uint64))
        await session.send(2, "second", np.zeros(1, np.uint64))
        return await session.receive(2, "second", (1,))

    results = await run_all(configs, body)  # at once: the limit of all is not longer than the deadline of each
    assert isinstance(results["bob"], ValueError)
    for name in ("alice", "carol"):
        assert isinstance(results[name], PeerLostError)
        assert "bob gave up" in str(results[name])
        assert "4711" not in str(results[name])


async def test_a_member_that_is_done_stays_for_those_who_are_not(configs):
    async def body(session):
        if session.me == 3:
            await asyncio.sleep(1.0)
            for to in (1, 2):  # nobody receives it
                await session.send(to, "late", np.zeros(1 << 20, np.uint64))
        return session.me

    assert await run_all(configs, body) == {"alice": 1, "bob": 2, "carol": 3}


async def test_a_certificate_of_another_member_is_refused(configs, tmp_path):
    for suffix in ("pem", "key"):
        shutil.copy2(tmp_path / f"bob.{suffix}", tmp_path / f"alice.{suffix}")
    with pytest.raises(CredentialsError, match="belongs to spiffe://local/party/bob"):
        async with join_mesh(configs["alice"], program="sum"):
            pass


async def test_a_taken_address_is_told(configs):
    host, port = configs["alice"].members[0].address.split(":")
    server = await asyncio.start_server(lambda reader, writer: None, host, int(port))
    async with server:
        with pytest.raises(ListenError):
            async with join_mesh(configs["alice"], program="sum"):
                pass
