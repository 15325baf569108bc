"""A relay between members in one process: who may, what a faulty one can do, and what it holds."""

import asyncio
import socket
import ssl
from dataclasses import replace

import pytest
from certificates import tls_in
from connect_proxy import ConnectProxy
from cryptography import x509
from deadlines import GENEROUS_S, until
from relayed import Relayed, call, reach

from cli.doctor.connections import check_connections
from cli.doctor.member import read_member
from demo.loopback import toml
from demo.ports import free_ports
from page.metrics import RelayStanding
from service.errors import ServiceError, UnreachableError
from service.identity import Identity, Role
from service.reach.entry_faults import fault_at_entry
from service.reach.proxy import Proxy
from service.reach.relays import (
    ByRelays,
    Endpoint,
    NotAtRelayError,
    RelayError,
    RelayNotTrustedError,
    RelayPoint,
    RelayRefusesError,
    ask_relay,
    ask_round_trip,
    end_outer_tls,
    open_way,
    outer_context,
)
from service.trust.revocation import RevocationList
from service.watch.meter import rounded_up
from transport.calls.channel import check_certificate
from transport.relay import hub as hub_module
from transport.relay import ways as ways_module
from transport.relay.entry import Entry
from transport.relay.hub import RelayHub
from transport.relay.splice import READ_BYTES, SPLICE_BYTES, WAITING_BYTES, Half, Splice

VAIN_S = 2.0
WORKER = "ab" * 16


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_a_member_that_only_dials_out_is_reached_and_proves_itself_end_to_end(tmp_path, host):
    async with Relayed(tmp_path, host) as federation:
        hub, relay = await federation.relay()
        bank, _ = await federation.party("bank", relay)
        clinic = federation.issue_to(Role.PARTY, "clinic")
        channel = federation.channel(clinic, bank.identity, relay)
        await reach(channel, bank.identity, relay)
        assert await check_certificate(channel)
        (pair,) = hub.ways.traffic()
        assert pair == (clinic.identity, bank.identity)
        assert hub.ways.traffic()[pair] > 1000


async def test_a_member_that_is_not_connected_is_named_with_the_relay(tmp_path):
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        clinic, bank = federation.issue_to(Role.PARTY, "clinic"), Identity("local", Role.PARTY, "bank")
        with pytest.raises(NotAtRelayError, match=r"relay north at 127.0.0.1:.* has no connection of bank"):
            await asyncio.to_thread(open_way, relay, Endpoint(bank), clinic, GENEROUS_S)
        channel = federation.channel(clinic, bank, relay)
        with pytest.raises(ServiceError, match=r"bank .*by relay north"):
            await call(channel, bank)
        with pytest.raises(ServiceError, match=r"reach bank .*: relay north at .* has no connection of bank") as caught:
            await reach(channel, bank, relay, deadline_s=VAIN_S)
        assert caught.value.code == "not-at-relay"


async def proxied(federation, relay):
    """A caller whose proxy cannot be reached."""
    return replace(federation.issue_to(Role.PARTY, "clinic"), proxy=Proxy(f"127.0.0.1:{free_ports(1)[0]}")), relay


async def relay_away(federation, relay):
    return federation.issue_to(Role.PARTY, "clinic"), RelayPoint(relay.identity, "127.0.0.1:1")


async def other_relay(federation, relay):
    return federation.issue_to(Role.PARTY, "clinic"), RelayPoint(Identity("local", Role.RELAY, "south"), relay.address)


async def refused(federation, relay):
    """A caller that may ask for no way to a party."""
    return federation.issue_to(Role.WORKER, "clinic"), relay


async def not_connected(federation, relay):
    return federation.issue_to(Role.PARTY, "clinic"), relay


async def hangs(federation, relay):
    """The member is connected, and never answers."""
    bank = federation.issue_to(Role.PARTY, "bank")
    federation.stack.callback((await asyncio.to_thread(ask_relay, relay, "STAY", bank, GENEROUS_S)).close)
    return federation.issue_to(Role.PARTY, "clinic"), relay


async def service_away(federation, relay):
    _, stay = await federation.party("bank", relay)
    stay._serves_at = "127.0.0.1:1"
    return federation.issue_to(Role.PARTY, "clinic"), relay


HOPS = [
    (proxied, "cannot be reached: our proxy cannot be reached", "proxy-not-reached"),
    (relay_away, "cannot be reached: nothing listens there", "relay-not-reachable"),
    (other_relay, "does not prove to be that relay: its certificate is not valid here", "relay-not-trusted"),
    (refused, "refuses: a worker may not call a party", "relay-refuses"),
    (not_connected, "has no connection of bank", "not-at-relay"),
    (hangs, "calls bank, which does not answer", "relay-call-unanswered"),
    (service_away, "reaches bank, whose service does not run", "service-away-behind-relay"),
]


@pytest.mark.parametrize(("at_hop", "words", "code"), HOPS, ids=[code for _, _, code in HOPS])
async def test_a_call_that_fails_says_at_which_hop(tmp_path, monkeypatch, at_hop, words, code):
    monkeypatch.setattr(hub_module, "CALL_S", VAIN_S)
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        bank = Identity("local", Role.PARTY, "bank")
        clinic, relay = await at_hop(federation, relay)
        channel = federation.channel(clinic, bank, relay)
        with pytest.raises(UnreachableError) as caught:
            await call(channel, bank)
        assert caught.value.code == code
        assert str(caught.value).startswith(f"cannot call at bank (by {relay}): {relay} {words}")
        assert "handshake" not in str(caught.value)


async def test_doctor_asks_a_relay_through_the_proxy_of_the_configuration(tmp_path):
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        _, other = await federation.relay("south")
        federation.issue_to(Role.PARTY, "bank")
        with ConnectProxy() as proxy:
            head = {"name": "bank", "federation": "local", "data_dir": "data", "proxy": f"http://{proxy.address}"}
            address = {"name": "hub", "address": other.address}  # where somebody else is
            tls = tls_in(tmp_path, Role.PARTY, "bank")
            text = toml(
                head, {"tls": {field: str(path) for field, path in tls.items()}, "coordinator": address, "peers": {}}
            )
            path = tmp_path / "party.toml"
            path.write_text(text + "\n[[relays]]\n" + toml({"name": "north", "address": relay.address}))
            found = await asyncio.to_thread(check_connections, read_member(path, Role.PARTY), GENEROUS_S)
        assert {check.name: check.outcome for check in found}["relay north"] == "ok"
        assert relay.address in proxy.asked


async def test_an_entry_that_is_closed_is_forgotten(tmp_path):
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        bank, clinic = Identity("local", Role.PARTY, "bank"), federation.issue_to(Role.PARTY, "clinic")
        entry = Entry(ByRelays((relay,)), bank, clinic)
        reader, writer = await asyncio.open_unix_connection(f"\0{entry.target.partition(':')[2]}")
        assert await reader.read() == b""
        assert "has no connection of bank [not-at-relay]" in fault_at_entry(entry.target)
        entry.close()
        await until(lambda: not fault_at_entry(entry.target))
        writer.close()


@pytest.mark.parametrize(
    ("role", "line"),
    [
        (Role.ANALYST, "WAY spiffe://local/party/bank"),
        (Role.DEVICE, "WAY spiffe://local/party/bank"),
        (Role.WORKER, "WAY spiffe://local/party/bank"),
        (Role.RELAY, "WAY spiffe://local/party/bank"),
        (Role.PARTY, "WAY spiffe://local/coordinator/hub"),
        (Role.PARTY, "WAY nobody"),
        (Role.PARTY, f"WAY spiffe://local/worker/bank {WORKER}"),
        (Role.PARTY, f"WAY spiffe://local/party/bank {WORKER}"),
        (Role.PARTY, f"STAY {WORKER}"),
        (Role.WORKER, "WAY spiffe://local/worker/bank"),
        (Role.WORKER, "STAY"),
        (Role.WORKER, "STAY 00"),
        (Role.COORDINATOR, "STAY"),
        (Role.ANALYST, "STAY"),
        (Role.ANALYST, "TRY"),
        (Role.PARTY, "COME 00"),
        (Role.PARTY, "SING"),
    ],
)
async def test_a_relay_refuses_what_a_role_may_not_ask(tmp_path, role, line):
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        await federation.party("bank", relay)
        caller = federation.issue_to(role, "guest")
        with pytest.raises(RelayRefusesError):
            await asyncio.to_thread(ask_relay, relay, line, caller, GENEROUS_S)


async def test_a_relay_serves_its_own_federation_with_certificates_that_are_not_revoked(tmp_path):
    (tmp_path / "other").mkdir()
    async with Relayed(tmp_path) as federation, Relayed(tmp_path / "other") as strangers:
        hub, relay = await federation.relay()
        bank, _ = await federation.party("bank", relay)
        stranger = strangers.issue_to(Role.PARTY, "clinic")
        with pytest.raises(RelayNotTrustedError, match=r"certificate is not valid here"):
            await asyncio.to_thread(ask_round_trip, relay, stranger, GENEROUS_S)
        clinic = federation.issue_to(Role.PARTY, "clinic")
        channel = federation.channel(clinic, bank.identity, relay)
        await reach(channel, bank.identity, relay)
        assert await asyncio.to_thread(ask_round_trip, relay, clinic, GENEROUS_S) >= 0
        assert hub.ways.present
        shown = next(iter(hub.ways.present)).shown[0]
        end = clinic.not_valid_after
        hub.use(replace(hub.credentials, revoked=RevocationList(1, frozenset({shown.serial_number}), end)))
        await until(lambda: not hub.ways.present)
        with pytest.raises(RelayRefusesError, match=r"revoked"):
            await asyncio.to_thread(ask_round_trip, relay, clinic, GENEROUS_S)


async def test_a_revoked_relay_is_not_used(tmp_path):
    async with Relayed(tmp_path) as federation:
        hub, relay = await federation.relay()
        bank, _ = await federation.party("bank", relay)
        clinic = federation.issue_to(Role.PARTY, "clinic")
        serial = x509.load_pem_x509_certificate(hub.credentials.certificate_pem).serial_number
        warned = replace(clinic, revoked=RevocationList(1, frozenset({serial}), clinic.not_valid_after))
        with pytest.raises(RelayNotTrustedError, match=r"revoked"):
            await asyncio.to_thread(open_way, relay, Endpoint(bank.identity), warned, GENEROUS_S)


class Tampering(Half):
    """Changes what it forwards, after the first bytes of the two members."""

    how = ""
    after = 0

    def forward(self, data: bytes) -> None:
        self.n_passed = getattr(self, "n_passed", 0) + len(data)
        if self.n_passed <= self.after:
            super().forward(data)
            return
        match self.how:
            case "drops":
                return
            case "repeats":
                super().forward(data + data)
            case "swaps":
                super().forward(data[len(data) // 2 :] + data[: len(data) // 2])
            case "cuts":
                self.abort()
            case "invents":
                super().forward(bytes(len(data)))
            case "alters":
                super().forward(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("after", [0, 4000], ids=["in the handshake", "in a call"])
@pytest.mark.parametrize("how", ["drops", "repeats", "swaps", "cuts", "invents", "alters"])
async def test_what_a_lying_relay_does_to_bytes_is_noticed_and_the_relay_is_named(tmp_path, monkeypatch, how, after):
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        bank, _ = await federation.party("bank", relay)
        clinic = federation.issue_to(Role.PARTY, "clinic")

        class LyingSplice(Splice):
            def __init__(self):
                super().__init__()
                halves = tuple(Tampering(self._count, self._end_one) for _ in range(2))
                for half, other in zip(halves, reversed(halves), strict=True):
                    half.other, half.how, half.after = other, how, after
                self._halves = halves

        monkeypatch.setattr(hub_module, "Splice", LyingSplice)
        channel = federation.channel(clinic, bank.identity, relay)

        patience_s = VAIN_S if how == "drops" else GENEROUS_S

        async def go_on():
            for _ in range(1000):
                await call(channel, bank.identity, patience_s)

        with pytest.raises(ServiceError, match=r"bank .*by relay north at 127.0.0.1"):
            await go_on()


async def test_a_relay_that_connects_to_the_wrong_member_is_noticed(tmp_path):
    class Wrong(RelayHub):
        async def _called(self, target):
            return await super()._called(Endpoint(Identity("local", Role.PARTY, "shop")))

    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay(hub=Wrong)
        await federation.party("shop", relay)
        bank = Identity("local", Role.PARTY, "bank")
        clinic = federation.issue_to(Role.PARTY, "clinic")
        channel = federation.channel(clinic, bank, relay)
        with pytest.raises(ServiceError, match=r"bank .*by relay north.* belongs to somebody else") as caught:
            await call(channel, bank)
        assert caught.value.code == "certificate-of-another"


async def test_who_stole_a_relays_key_reads_nothing_and_answers_for_nobody(tmp_path):
    """The thief runs a relay of that name, and ends the members' TLS itself with the key that it has."""
    async with Relayed(tmp_path) as federation:
        stolen = federation.issue_to(Role.RELAY, "north")

        class Thief(RelayHub):
            async def _called(self, target):
                ours, theirs = socket.socketpair()
                theirs.setblocking(False)
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*stolen.files)
                context.set_alpn_protocols(["h2"])
                read = asyncio.create_task(self._read(ours, context))
                self._tasks.add(read)
                return theirs, b"", self._admission._authority

            async def _read(self, ours, context):
                ours.setblocking(False)

                async def answer(reader, writer):
                    self.stolen = await reader.read(1000)

                loop = asyncio.get_running_loop()
                reader = asyncio.StreamReader()
                protocol = asyncio.StreamReaderProtocol(reader, answer)
                await loop.connect_accepted_socket(lambda: protocol, ours, ssl=context)

        hub, relay = await federation.relay(hub=Thief)
        hub.stolen = b""
        bank, clinic = Identity("local", Role.PARTY, "bank"), federation.issue_to(Role.PARTY, "clinic")
        channel = federation.channel(clinic, bank, relay)
        with pytest.raises(ServiceError, match=r"bank .*by relay north.* belongs to somebody else"):
            await call(channel, bank)
        assert hub.stolen == b""


async def test_a_member_that_never_reads_takes_bounded_memory_and_stops_no_other(tmp_path):
    async with Relayed(tmp_path) as federation:
        hub, relay = await federation.relay()
        deaf = federation.issue_to(Role.PARTY, "deaf")
        clinic = federation.issue_to(Role.PARTY, "clinic")
        bank, _ = await federation.party("bank", relay)
        loop = asyncio.get_running_loop()

        def stay():
            channel = ask_relay(relay, "STAY", deaf, GENEROUS_S)
            line = channel.recv(1024).decode()
            assert line.startswith("CALL ")
            held = end_outer_tls(ask_relay(relay, f"COME {line.split()[1]}", deaf, GENEROUS_S), relay)
            return channel, held  # never read

        staying = loop.run_in_executor(None, stay)
        await until(lambda: Endpoint(deaf.identity) in hub.stays)
        flood = await asyncio.to_thread(open_way, relay, Endpoint(deaf.identity), clinic, GENEROUS_S)
        held = await staying
        flood.setblocking(False)

        async def go_on():
            while True:
                await loop.sock_sendall(flood, bytes(1 << 20))

        await until(lambda: hub.ways.present)
        (way,) = hub.ways.present

        def waiting():
            halves = [half.transport for half in way.splice._halves if half.transport is not None]
            return sum(transport.get_write_buffer_size() for transport in halves)

        flooding = asyncio.create_task(go_on())
        await until(lambda: waiting() >= WAITING_BYTES)
        assert waiting() <= READ_BYTES + WAITING_BYTES < SPLICE_BYTES
        channel = federation.channel(clinic, bank.identity, relay)
        await reach(channel, bank.identity, relay)
        assert waiting() <= READ_BYTES + WAITING_BYTES
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        flood.close()
        for sock in held:
            sock.close()


async def test_ways_of_a_pair_of_a_member_and_in_all_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(ways_module, "WAYS_PAIR", 2)
    monkeypatch.setattr(ways_module, "WAYS_EACH", 3)
    monkeypatch.setattr(ways_module, "MOST_WAYS", 4)
    async with Relayed(tmp_path) as federation:
        hub, relay = await federation.relay()
        bank, _ = await federation.party("bank", relay)
        shop, _ = await federation.party("shop", relay)
        ann, ben = federation.issue_to(Role.PARTY, "ann"), federation.issue_to(Role.PARTY, "ben")

        async def way(caller, target):
            return await asyncio.to_thread(open_way, relay, Endpoint(target.identity), caller, GENEROUS_S)

        held = [await way(ann, bank), await way(ann, bank)]
        with pytest.raises(RelayRefusesError, match=r"too many ways"):
            await way(ann, bank)
        held.append(await way(ann, shop))
        with pytest.raises(RelayRefusesError, match=r"too many ways"):
            await way(ann, shop)
        held.append(await way(ben, shop))
        with pytest.raises(RelayRefusesError, match=r"too many ways"):
            await way(ben, bank)
        held.pop().close()
        await until(lambda: len(hub.ways.present) == 3)
        held.append(await way(ben, bank))
        for sock in held:
            sock.close()
        await until(lambda: not hub.ways.present)
        assert not hub.ways._n_asked and not hub.ways._n_pair  # noqa: PT018


async def test_workers_of_one_party_are_told_apart_by_their_names_and_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "STAYS_EACH", 2)
    names = ["a" * 32, "b" * 32, "c" * 32]
    async with Relayed(tmp_path) as federation:
        hub, relay = await federation.relay()
        bank, clinic = (federation.issue_to(Role.WORKER, name) for name in ("bank", "clinic"))

        async def stay(name):
            return await asyncio.to_thread(ask_relay, relay, f"STAY {name}", bank, GENEROUS_S)

        held = [await stay(name) for name in names[:2]]
        with pytest.raises(RelayRefusesError, match=r"too many members are connected"):
            await stay(names[2])
        assert list(hub.connected()) == [bank.identity]
        asking = asyncio.create_task(
            asyncio.to_thread(open_way, relay, Endpoint(bank.identity, names[1]), clinic, GENEROUS_S)
        )
        called = (await asyncio.to_thread(held[1].recv, 100)).decode()
        assert called.startswith("CALL ")
        held.append(await asyncio.to_thread(ask_relay, relay, f"COME {called.split()[1]}", bank, GENEROUS_S))
        held.append(await asyncio.to_thread(end_outer_tls, held[-1], relay))
        held.append(await asking)
        with pytest.raises(NotAtRelayError, match=r"has no connection of a worker of bank"):
            await asyncio.to_thread(open_way, relay, Endpoint(bank.identity, names[2]), clinic, GENEROUS_S)
        for sock in held:
            sock.close()


async def test_strangers_who_say_nothing_hold_a_connection_for_a_while_only(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "MOST_HANDSHAKES", 2)
    monkeypatch.setattr(hub_module, "HANDSHAKE_S", VAIN_S)
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        host, _, port = relay.address.rpartition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(2)]
        await federation.party("bank", relay)
        for sock in silent:
            sock.close()


async def test_a_member_that_holds_connections_open_takes_bounded_places(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "MOST_HANDSHAKES", 2)
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        bank = federation.issue_to(Role.PARTY, "bank")

        async def hold(line, timeout_s=GENEROUS_S):
            return await asyncio.to_thread(ask_relay, relay, line, bank, timeout_s)

        held = [await hold("TRY"), await hold("TRY")]
        with pytest.raises(RelayError):
            await hold("TRY", VAIN_S)
        held.pop().close()
        held += [await hold("STAY") for _ in range(3)]  # of which the last one counts
        for sock in held:
            sock.close()


async def test_the_later_connection_of_a_member_replaces_the_earlier_one(tmp_path):
    async with Relayed(tmp_path) as federation:
        hub, relay = await federation.relay()
        bank = federation.issue_to(Role.PARTY, "bank")
        first = await asyncio.to_thread(ask_relay, relay, "STAY", bank, GENEROUS_S)
        second = await asyncio.to_thread(ask_relay, relay, "STAY", bank, GENEROUS_S)
        assert await asyncio.to_thread(first.recv, 100) == b""
        assert Endpoint(bank.identity) in hub.stays
        second.close()
        await until(lambda: not hub.stays)
        first.close()


async def test_a_relay_that_comes_back_is_found_again_and_another_is_used_meanwhile(tmp_path):
    async with Relayed(tmp_path) as federation:
        north, at_north = await federation.relay("north")
        south, at_south = await federation.relay("south")
        bank, stay = await federation.party("bank", at_north, at_south)
        clinic = federation.issue_to(Role.PARTY, "clinic")
        channel = federation.channel(clinic, bank.identity, at_north, at_south)
        await reach(channel, bank.identity, at_north, at_south)
        assert north.ways.present and not south.ways.present  # noqa: PT018
        await north.stop()
        await reach(channel, bank.identity, at_north, at_south)
        assert south.ways.present
        await until(lambda: not stay.connected[at_north])
        await federation.relay("north", port=int(at_north.address.rpartition(":")[2]))
        await until(lambda: stay.connected[at_north])


async def test_the_outer_tls_is_of_version_1_3_and_of_the_relays_protocol(tmp_path):
    async with Relayed(tmp_path) as federation:
        _, relay = await federation.relay()
        bank = federation.issue_to(Role.PARTY, "bank")
        channel = await asyncio.to_thread(ask_relay, relay, "TRY", bank, GENEROUS_S)
        assert channel.version() == "TLSv1.3"
        assert channel.selected_alpn_protocol() == "moiety-relay/1"
        channel.close()
        assert outer_context(bank).verify_mode is ssl.CERT_REQUIRED


async def test_metrics_of_a_relay_say_who_is_connected_and_round_what_was_forwarded(tmp_path):
    async with Relayed(tmp_path) as federation:
        hub, relay = await federation.relay()
        bank, _ = await federation.party("bank", relay)
        clinic = federation.issue_to(Role.PARTY, "clinic")
        await reach(federation.channel(clinic, bank.identity, relay), bank.identity, relay)
        since, moved = RelayStanding(hub).collect()
        (connected,) = since.samples
        assert connected.labels == {"member": "bank"}
        assert connected.value == hub.stays[Endpoint(bank.identity)].since_s
        (forwarded,) = moved.samples
        assert forwarded.labels == {"caller": "clinic", "called": "bank"}
        assert forwarded.value == rounded_up(sum(hub.ways.traffic().values()))
