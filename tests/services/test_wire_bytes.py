"""What members send, counted on the wire, against the formulas of the design: within 3 per cent.

A counting relay stands in front of every member. TLS does not notice: a member is its certificate, not its address.
Counted are the bytes of TCP connections: TLS, HTTP/2 and frames included, headers of IP and TCP not.
"""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest

from demo.local_mesh import write_mesh
from demo.loopback import loopback_addresses
from mpc.arithmetic.field import ResidueField
from mpc.protocol.computation import Computation
from transport.messages.mesh import MeshConfig, MeshMember, join_mesh

N_ELEMENTS = 300_000


class Relay:
    """Passes connections on and counts what callers send; answers are passed on too, and counted apart."""

    def __init__(self, target: str) -> None:
        self._host, port = target.rsplit(":", 1)
        self._port = int(port)
        self.n_bytes = 0

    async def __call__(self, reader, writer) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        except ConnectionError:
            writer.close()
            return
        await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))

    async def _pass(self, reader, writer) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.n_bytes += len(data)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def relayed_mesh(folder, n_parties):
    """Yield configurations in which every member is reached through a relay, and the relays."""
    names = [f"party-{i}" for i in range(1, n_parties + 1)]
    configs = [MeshConfig.load(file) for file in write_mesh(folder, names).values()]
    public = loopback_addresses(names)
    relays = []
    async with AsyncExitStack() as stack:
        for member in configs[0].members:
            relay = Relay(member.address)
            host, port = public[member.name].split(":")
            await stack.enter_async_context(await asyncio.start_server(relay, host, int(port)))
            relays.append(relay)
        members = tuple(MeshMember(name=name, address=public[name]) for name in names)
        yield (
            [
                config.model_copy(update={"listen": own.address, "members": members})
                for config, own in zip(configs, configs[0].members, strict=True)
            ],
            relays,
        )


@pytest.mark.parametrize(("n_parties", "t", "n_primes"), [(3, 1, 3), (3, 1, 6), (5, 2, 3)])
async def test_a_product_takes_a_word_per_element_and_explicit_share(tmp_path, n_parties, t, n_primes):
    field = ResidueField(n_primes)
    values = np.arange(N_ELEMENTS) % 1000 - 500

    async with relayed_mesh(tmp_path, n_parties) as (configs, relays):
        counted, together = [], asyncio.Barrier(n_parties)

        async def member(config):
            async with join_mesh(config, program="bytes") as session:
                c = await Computation.start(session, field, n_parties, t)
                given = await c.inputs({1: values.shape, 2: values.shape}, values, bound=1000)
                await c.open(given[1][:1], c.members)
                await together.wait()  # all of this has been received by all
                counted.append(sum(relay.n_bytes for relay in relays))
                await together.wait()  # and nobody goes on before all have counted
                product = await c.multiply(given[1], given[2])
                opened = await c.open(product[:1], c.members)
                assert opened.values.tolist() == [250_000]
                await together.wait()
                counted.append(sum(relay.n_bytes for relay in relays))

        await asyncio.gather(*map(member, configs))
    before, after = counted[0], counted[-1]
    payload = 8 * field.n_words * (n_parties - 1 - t) * N_ELEMENTS * n_parties
    assert after - before == pytest.approx(payload, rel=0.03)


async def test_an_input_takes_one_share_less_than_parties_beyond_t(tmp_path):
    """A dealer that computes keeps its own share; t of the others derive theirs."""
    values = np.arange(N_ELEMENTS)
    async with relayed_mesh(tmp_path, 4) as (configs, relays):
        counted, together = [], asyncio.Barrier(4)

        async def member(config):
            async with join_mesh(config, program="bytes") as session:
                c = await Computation.start(session, ResidueField(3), 3, 1)
                await together.wait()
                counted.append(sum(relay.n_bytes for relay in relays))
                await together.wait()
                given = await c.inputs({1: values.shape, 4: values.shape}, values, bound=N_ELEMENTS)
                await c.open(given[1][:1], (1, 2, 3, 4))
                await together.wait()
                counted.append(sum(relay.n_bytes for relay in relays))

        await asyncio.gather(*map(member, configs))
    by_compute_party, by_owner = 3 - 1 - 1, 3 - 1
    payload = 8 * N_ELEMENTS * (by_compute_party + by_owner)
    assert counted[-1] - counted[0] == pytest.approx(payload, rel=0.03)
