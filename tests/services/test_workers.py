"""Workers of three parties over real mutual TLS, in this process: what they compute, and whom they refuse."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import numpy as np
import pytest
from certificates import tls_in
from connect_proxy import ConnectProxy
from deadlines import GENEROUS_S
from worked_jobs import N_ROWS, OUTSIDE, OWNERS
from workers import FEDERATION, SHARD, Setting

from demo.ports import free_ports
from entropy import SystemEntropy
from mpc.errors import LocalFaultError
from party.engine.worker import ShardSession, Worker, identity_of_worker
from party.server import PERMISSIONS
from service.authorization import Permissions
from service.errors import NotAllowedError
from service.identity import Identity, Role
from service.tls import CredentialsError
from transport.calls.channel import open_channel
from transport.messages.inbox import Inbox
from transport.messages.mailbox import DELIVER
from transport.relay.hub import RelayHub

SILENCE_S = 20.0
"""Nobody but those that never speak is waited for so long, on a machine that makes a plan in less."""

REFUSED_S = 1.0
"""Nobody is there who could answer later."""


@asynccontextmanager
async def running(setting, **settings_of):
    """Yield member number to its worker."""
    workers = {}
    try:
        for member, name in setting.members.items():
            workers[member] = await Worker.start(setting.settings(name, **settings_of.get(name, {})))
        yield workers
    finally:
        await asyncio.gather(*(worker.stop() for worker in workers.values()))


def addresses_for(workers, me):
    return {member: worker.address for member, worker in workers.items() if member != me}


async def attempt(setting, workers, number=0, **fields):
    """Let all workers do an attempt; return their answers."""
    orders = {member: setting.order(member, number=number, **fields) for member in workers}
    for member, worker in workers.items():
        assert worker.prepare(orders[member]) == worker.address
    works = (worker.work(orders[m].session_id, addresses_for(workers, m)) for m, worker in workers.items())
    async with asyncio.timeout(GENEROUS_S):
        return dict(zip(workers, await asyncio.gather(*works), strict=True))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
async def test_the_shares_of_three_workers_open_to_the_products_of_exactly_the_rows_of_their_shard(tmp_path, ending):
    setting = Setting(tmp_path, ending=ending)
    async with running(setting) as workers:
        answers = await attempt(setting, workers)
    assert np.array_equal(setting.opened(answers), setting.exact())
    outside = {m: int((setting.values()[name][:, 0] > 3).sum()) for m, name in setting.members.items()}
    assert {m: answer.counts["outside"][0] for m, answer in answers.items()} == outside
    assert 0 < outside[1] < OUTSIDE
    assert set(answers[1].sent) == {"keys", "key confirmation", "table"}


async def test_workers_dial_workers_of_other_parties_through_the_proxy_of_their_party(tmp_path):
    setting = Setting(tmp_path)
    with ConnectProxy() as proxy:
        behind = {"proxy": {"url": f"http://{proxy.address}"}}
        async with running(setting, **dict.fromkeys(setting.members.values(), behind)) as workers:
            answers = await attempt(setting, workers)
            asked_for = {address for me in workers for address in addresses_for(workers, me).values()}
    assert np.array_equal(setting.opened(answers), setting.exact())
    assert set(proxy.asked) == asked_for


@asynccontextmanager
async def relaying(setting, *names):
    """Yield relays, and how settings name them."""
    hubs, entries = [], []
    try:
        for name in names:
            hubs.append(RelayHub(setting.issue(Role.RELAY, name)))
            port = await hubs[-1].start("127.0.0.1:0")
            entries.append({"name": name, "address": f"127.0.0.1:{port}"})
        yield hubs, {"relays": entries}
    finally:
        await asyncio.gather(*(hub.stop() for hub in hubs))


@pytest.mark.parametrize("hidden", [(1, 2, 3), (2,)], ids=["all", "one"])
async def test_workers_of_parties_that_only_dial_out_are_reached_by_relays(tmp_path, hidden):
    setting = Setting(tmp_path)
    async with relaying(setting, "north") as ((hub,), known):
        settings = {name: known | {"dials_out": member in hidden} for member, name in setting.members.items()}
        async with running(setting, **settings) as workers:
            assert all("127.0.0.1" not in workers[member].address for member in hidden)
            answers = await attempt(setting, workers, by_relays=hidden)
            pairs = {(caller.name, called.name) for caller, called in hub.ways.traffic()}
    names = setting.members
    assert pairs == {(names[me], names[other]) for other in hidden for me in names if me != other}
    assert np.array_equal(setting.opened(answers), setting.exact())


async def test_workers_go_on_by_the_second_relay(tmp_path):
    setting = Setting(tmp_path)
    async with relaying(setting, "north", "south") as ((north, south), known):
        settings = dict.fromkeys(setting.members.values(), known | {"dials_out": True})
        async with running(setting, **settings) as workers:
            await attempt(setting, workers, by_relays=(1, 2, 3))
            await north.stop()
            answers = await attempt(setting, workers, 1, by_relays=(1, 2, 3))
            assert south.ways.traffic()
    assert np.array_equal(setting.opened(answers), setting.exact())


async def test_two_attempts_at_one_shard_share_nothing(tmp_path):
    """Their shares differ, and so do all bytes that travelled, as each has keys of its own; the sum is the same."""
    setting = Setting(tmp_path)
    async with running(setting) as workers:
        first, second = await attempt(setting, workers, 0), await attempt(setting, workers, 1)
        with pytest.raises(Exception, match="opened before"):
            workers[1].prepare(setting.order(1, number=0))
    assert np.array_equal(setting.opened(first), setting.opened(second))
    assert all(first[member].share != second[member].share for member in first)


@pytest.mark.slow
async def test_a_worker_that_bears_the_name_of_another_party_is_taken_for_that_party_and_for_no_other(tmp_path):
    """Member 2's place is taken by a worker with the certificate of member 3: nobody reaches it, nobody computes."""
    setting = Setting(tmp_path)
    shop = {"tls": tls_in(tmp_path, Role.WORKER, "telco"), "party": "telco"}
    async with running(setting, hospital=shop) as workers:
        answers = await attempt(setting, workers, deadline_s=SILENCE_S)
    assert all(answer.kind.startswith("Peer") and answer.share is None for answer in answers.values())


async def test_a_worker_does_not_start_with_the_certificate_of_its_party_or_of_another_ones_workers(tmp_path):
    setting = Setting(tmp_path)
    setting.issue(Role.PARTY, "bank")
    for role, name in ((Role.PARTY, "bank"), (Role.WORKER, "telco")):
        with pytest.raises(CredentialsError, match="belongs to"):
            await Worker.start(setting.settings("bank", tls=tls_in(tmp_path, role, name)))


@pytest.mark.parametrize("role", [Role.PARTY, Role.COORDINATOR, Role.ANALYST])
async def test_a_worker_takes_messages_from_workers_only(tmp_path, role):
    setting = Setting(tmp_path)
    own = setting.issue(role, "hospital")
    async with running(setting) as workers:
        order = setting.order(1)
        workers[1].prepare(order)
        async with open_channel(workers[1].address, identity_of_worker(FEDERATION, "bank"), own) as channel:
            call = channel.stream_unary(DELIVER)(iter([b""]))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "worker only" in refused.value.details()


def test_no_method_of_a_party_may_be_called_by_a_worker():
    permissions = Permissions(FEDERATION, PERMISSIONS)
    for method in PERMISSIONS:
        with pytest.raises(NotAllowedError):
            permissions.check(method, Identity(FEDERATION, Role.WORKER, "bank"))


@pytest.mark.slow
async def test_a_namesake_that_never_comes_ends_the_attempt_at_the_others(tmp_path):
    setting = Setting(tmp_path)
    async with running(setting) as workers:
        orders = {member: setting.order(member, deadline_s=SILENCE_S) for member in workers}
        for member, worker in workers.items():
            worker.prepare(orders[member])
        works = (workers[m].work(orders[m].session_id, addresses_for(workers, m)) for m in (1, 2))
        answers = await asyncio.gather(*works)
    assert [(answer.kind, answer.member) for answer in answers] == [("PeerSilentError", 3)] * 2


async def test_a_file_that_was_changed_since_the_party_has_read_it_is_not_used(tmp_path):
    setting = Setting(tmp_path)
    async with running(setting) as workers:
        orders = {m: setting.order(m, version="another" if m == 1 else None) for m in workers}
        for member, worker in workers.items():
            worker.prepare(orders[member])
        works = (workers[m].work(orders[m].session_id, addresses_for(workers, m)) for m in workers)
        answers = await asyncio.gather(*works)
    assert answers[0].kind == "table"
    assert "changed" in answers[0].what
    assert all(answer.kind == "PeerLostError" for answer in answers[1:])


async def test_an_attempt_that_is_abandoned_ends_and_is_unknown_then(tmp_path):
    setting = Setting(tmp_path)
    async with running(setting) as workers:
        order = setting.order(1)
        workers[1].prepare(order)
        working = asyncio.create_task(workers[1].work(order.session_id, addresses_for(workers, 1)))
        await asyncio.sleep(0)
        await workers[1].abandon(order.session_id)
        assert (await working).kind == "lost"
        assert (await workers[1].work(order.session_id, {})).kind == "lost"


async def test_the_session_of_a_worker_sends_nothing_in_the_stage_of_an_opening():
    names = {1: "bank", 2: "hospital"}
    session = ShardSession(
        job_id="shard-0",
        terms=b"",
        me=1,
        names=names,
        entropy=SystemEntropy(),
        deadline_s=SILENCE_S,
        inbox=Inbox(names),
        channels={2: None},
        on_progress=lambda stage, done, total: None,
    )
    for stage in ("opening", "noise", "budget"):
        with pytest.raises(LocalFaultError, match=stage):
            await session.send(2, stage, np.zeros(1, dtype=np.uint64))


def test_the_shard_begins_within_the_table():
    assert 0 < SHARD.start < SHARD.stop < N_ROWS
    assert set(OWNERS) == {"bank", "hospital", "telco"}


@asynccontextmanager
async def listening(folder):
    """Yield a list of connections that were made, a TCP port and a path of a socket where somebody listens."""
    made = []

    async def note(reader, writer):
        made.append(writer.get_extra_info("sockname"))
        writer.close()

    tcp = await asyncio.start_server(note, "127.0.0.1", 0)
    unix = await asyncio.start_unix_server(note, str(folder / "x"))
    async with tcp, unix:
        yield made, tcp.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "form",
    ["unix:{folder}/x", "dns:///127.0.0.1:{port}", "localhost:{port}", "ipv4:127.0.0.1:{port}", f"relay/{'ab' * 16}"],
)
async def test_a_worker_dials_no_address_but_those_on_hosts_that_its_owner_names(tmp_path, form):
    setting = Setting(tmp_path)
    async with listening(tmp_path) as (made, port), running(setting) as workers:
        order = setting.order(1)
        workers[1].prepare(order)
        addresses = {2: form.format(folder=tmp_path, port=port), 3: workers[3].address}
        answer = await workers[1].work(order.session_id, addresses)
    assert (answer.kind, answer.member, made) == ("PeerViolationError", 2, [])
    assert addresses[2] not in answer.what
    assert addresses[2] in answer.cause


async def test_what_listens_at_a_dialled_address_is_told_to_the_owner_alone(tmp_path):
    """Another member reads the same whether a port is closed, or open and no worker's."""
    setting, told = Setting(tmp_path), {}
    async with listening(tmp_path) as (made, port), running(setting) as workers:
        closed = free_ports(1)[0]
        for number, where in enumerate((port, closed)):
            order = setting.order(1, number=number, deadline_s=REFUSED_S)
            workers[1].prepare(order)
            answer = await workers[1].work(order.session_id, {2: f"127.0.0.1:{where}", 3: workers[3].address})
            told[where] = answer
    assert made, "the open port was dialled"
    public = {(one.kind, one.member, one.stage, one.what) for one in told.values()}
    assert public == {("PeerLostError", 2, "reaching workers", "the worker of hospital cannot be reached")}
    assert "nothing listens" in told[closed].cause
    assert "nothing listens" not in told[port].cause
