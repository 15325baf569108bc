import copy
import itertools
import pickle

import numpy as np
import pytest

from entropy import InsecureTestEntropy
from mpc.errors import InconsistentSharesError, LocalFaultError, PeerLostError, PeerSilentError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.exchange import agree_pairwise_secrets
from mpc.protocol.greeting import binding_of
from mpc.protocol.hashkey import HashKey, HashKeys, KeyNameReusedError, combine, commit
from mpc.protocol.pairwise import PairwiseSecret
from mpc.protocol.sealed import SealedChannel

COMMITMENT, REVEAL = "hash key ids/commitment", "hash key ids/reveal"


async def agree(n_parties=3, names=("ids",), parties=None, **options):
    """Member to what it says of each key's digest of b"data", or to its error."""
    members = parties or range(1, n_parties + 1)
    network = LocalNetwork(local_names(n_parties), **{"deadline_s": 0.3, **options})

    async def one(session):
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        keys = HashKeys(session, members, secrets)
        return [(await keys.agree(name)).digest(b"data") for name in names]

    return await network.run(dict.fromkeys(members, one)), network


def dropping(stage, sender):
    return lambda message: () if (message.stage, message.sender) == (stage, sender) else (message,)


@pytest.mark.parametrize("n_parties", [2, 3, 7])
async def test_all_parties_come_to_the_same_key(n_parties):
    results, _ = await agree(n_parties)
    assert len(results) == n_parties
    assert len({digest for (digest,) in results.values()}) == 1


async def test_keys_of_two_names_or_jobs_or_runs_differ():
    results, _ = await agree(names=("ids", "sample"))
    assert len(set(results[1])) == 2
    other_job, _ = await agree(job_id="another")
    other_run, _ = await agree(entropy_of=lambda m: InsecureTestEntropy(f"again {m}"))
    assert len({results[1][0], other_job[1][0], other_run[1][0]}) == 3


@pytest.mark.parametrize("changed", [1, 2, 3])
async def test_every_party_moves_the_key(changed):
    before, _ = await agree()
    after, _ = await agree(entropy_of=lambda m: InsecureTestEntropy(f"other {m}" if m == changed else f"member {m}"))
    assert before[1] != after[1]


async def test_some_members_agree_without_the_others():
    results, network = await agree(4, parties=(2, 4))
    assert results[2] == results[4] != []
    assert isinstance(results[2][0], bytes)
    assert {m.receiver for m in network.transcript if m.stage == COMMITMENT} == {2, 4}


async def test_a_second_request_for_the_same_name_is_refused_also_when_the_first_failed():
    results, _ = await agree(names=("ids", "ids"))
    assert {type(result) for result in results.values()} == {KeyNameReusedError}

    async def twice(session):
        secrets = await agree_pairwise_secrets(session, (1, 2), 2)
        keys = HashKeys(session, (1, 2), secrets)
        with pytest.raises(PeerSilentError):
            await keys.agree("ids")
        with pytest.raises(
            KeyNameReusedError, match="a key named 'ids' was requested before in this job; each key has only one use"
        ):
            await keys.agree("ids")
        return "refused"

    network = LocalNetwork(local_names(2), deadline_s=0.1, fault=dropping(COMMITMENT, 2))

    async def only_keys(session):
        await agree_pairwise_secrets(session, (1, 2), 2)

    assert (await network.run({1: twice, 2: only_keys}))[1] == "refused"


async def test_the_same_name_over_the_same_secrets_is_refused_also_to_another_agreement():
    async def two_agreements(session):
        secrets = await agree_pairwise_secrets(session, (1, 2), 2)
        await HashKeys(session, (1, 2), secrets).agree("ids")
        others = HashKeys(session, (1, 2), secrets)
        with pytest.raises(LocalFaultError, match="a key may seal only one message"):
            await others.agree("ids")
        return (await others.agree("rows")).digest(b"x")

    results = await LocalNetwork(local_names(2), deadline_s=2.0).run({1: two_agreements, 2: two_agreements})
    assert results[1] == results[2]
    assert isinstance(results[1], bytes)


async def test_nobody_reveals_before_it_has_all_commitments():
    _, network = await agree(fault=dropping(COMMITMENT, 3))
    revealing = {m.sender for m in network.transcript if m.stage == REVEAL}
    assert revealing <= {3}  # 3 has everybody's; nobody has 3's


@pytest.mark.parametrize("stage", [COMMITMENT, REVEAL])
async def test_a_missing_message_ends_in_an_error_that_names_the_silent_party(stage):
    results, _ = await agree(fault=dropping(stage, 2))
    for member in (1, 3):
        assert isinstance(results[member], PeerSilentError)
        assert (results[member].member, results[member].stage) == (2, stage)


async def test_a_party_that_drops_out_is_named():
    network = LocalNetwork(local_names(2), deadline_s=2.0)

    async def dropouts(session):
        await agree_pairwise_secrets(session, (1, 2), 2)
        network.kill(2)

    async def honest(session):
        return await HashKeys(session, (1, 2), await agree_pairwise_secrets(session, (1, 2), 2)).agree("ids")

    results = await network.run({1: honest, 2: dropouts})
    assert isinstance(results[1], PeerLostError)


@pytest.mark.parametrize("stage", [COMMITMENT, REVEAL])
async def test_an_altered_message_does_not_open(stage):
    def alter(message):
        if (message.stage, message.sender, message.receiver) != (stage, 2, 1):
            return (message,)
        array = message.array.copy()
        array[0] ^= 1
        return (message.altered(array),)

    results, _ = await agree(fault=alter)
    assert isinstance(results[1], PeerViolationError)
    assert "party-2" in str(results[1])
    assert "cannot be opened" in str(results[1])


async def test_messages_of_another_job_do_not_open():
    _, earlier = await agree(job_id="yesterday")
    kept = {(m.sender, m.receiver, m.stage): m for m in earlier.transcript if m.stage in (COMMITMENT, REVEAL)}

    def replay(message):
        old = kept.get((message.sender, message.receiver, message.stage))
        return (message if old is None else message.altered(old.array),)

    results, _ = await agree(job_id="today", fault=replay)
    assert {type(result) for result in results.values()} == {PeerViolationError}


async def test_a_message_of_one_key_does_not_serve_for_another():
    seen = {}

    def swap(message):
        if message.stage == COMMITMENT:
            seen[message.sender, message.receiver] = message.array
        if message.stage == "hash key sample/commitment":
            return (message.altered(seen[message.sender, message.receiver]),)
        return (message,)

    results, _ = await agree(names=("ids", "sample"), fault=swap)
    assert {type(result) for result in results.values()} == {PeerViolationError}


class Cheat(HashKeys):
    """A party whose sealed messages are what `cheat(party, stage, message)` makes of them."""

    def __init__(self, *arguments, cheat):
        super().__init__(*arguments)
        for party, channel in self._channels.items():
            self._channels[party] = _CheatingChannel(channel, lambda s, m, p=party: cheat(p, s, m))


class _CheatingChannel:
    def __init__(self, channel, cheat):
        self._channel, self._cheat = channel, cheat
        self.open = channel.open

    def seal(self, stage, message):
        return self._channel.seal(stage, self._cheat(stage, message))


async def agree_with_cheat(cheat, n_parties=3):
    """All are honest but the last."""
    members = range(1, n_parties + 1)

    async def one(session):
        secrets = await agree_pairwise_secrets(session, members, n_parties)
        is_cheat = session.me == n_parties
        keys = Cheat(session, members, secrets, cheat=cheat) if is_cheat else HashKeys(session, members, secrets)
        return await keys.agree("ids")

    return await LocalNetwork(local_names(n_parties), deadline_s=0.3).run(dict.fromkeys(members, one))


async def test_who_reveals_something_else_than_it_committed_to_is_named():
    def reveal_other(party, stage, message):
        return message if stage == COMMITMENT else bytes(32) + message[32:]

    results = await agree_with_cheat(reveal_other)
    for member in (1, 2):
        assert isinstance(results[member], PeerViolationError)
        assert results[member].member == 3
        assert "party-3 revealed a part of the key 'ids' that it had not committed to" in str(results[member])


async def test_who_commits_to_different_things_towards_different_parties_gets_no_key():
    def two_faced(party, stage, message):
        shown = bytes([party]) * 32
        if stage == COMMITMENT:
            return commit(binding_of("local", local_names(3), b""), "ids", (1, 2, 3), 3, shown)
        return shown + message[32:]

    results = await agree_with_cheat(two_faced)
    for member in (1, 2):
        assert isinstance(results[member], InconsistentSharesError)  # names nobody: one of both is honest
        assert "commitments to the key 'ids' that differ from ours" in str(results[member])


async def test_a_party_that_repeats_the_commitment_of_another_cannot_open_it():
    """The commitment is bound to its party: no two contributions can be made to cancel or repeat each other."""
    contribution = bytes(range(32))
    assert commit(b"job", "ids", (1, 2), 1, contribution) != commit(b"job", "ids", (1, 2), 2, contribution)


@pytest.mark.parametrize(
    "other", [(b"other", "ids", (1, 2), 1), (b"job", "sample", (1, 2), 1), (b"job", "ids", (1, 2, 3), 1)]
)
def test_a_commitment_is_bound_to_job_name_and_parties(other):
    contribution = bytes(32)
    assert commit(*other, contribution) != commit(b"job", "ids", (1, 2), 1, contribution)


@pytest.mark.parametrize("parties", [(1,), (2, 3), ()])
async def test_fewer_than_two_parties_or_somebody_elses_agreement_is_refused(parties):
    session = LocalNetwork(local_names(3)).session(1)
    with pytest.raises(LocalFaultError):
        HashKeys(session, parties, {})


async def test_without_a_sealed_channel_to_everybody_there_is_no_agreement():
    with pytest.raises(LocalFaultError, match="a pairwise secret with each party"):
        HashKeys(LocalNetwork(local_names(3)).session(1), (1, 2, 3), {})


def test_a_key_shows_nothing_and_is_not_copied():
    key = HashKey(b"k" * 32, "ids")
    assert repr(key) == str(key) == "HashKey('ids')"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            attempt(key)


def test_digests_and_streams_depend_on_the_key_and_on_what_they_are_for():
    one, two = HashKey(b"1" * 32, "ids"), HashKey(b"2" * 32, "ids")
    assert one.digest(b"x") == HashKey(b"1" * 32, "ids").digest(b"x")
    assert len({one.digest(b"x"), one.digest(b"y"), two.digest(b"x")}) == 3
    assert len({one.stream("a").read(32), one.stream("b").read(32), two.stream("a").read(32)}) == 3


class RelayedSession:
    """A session in which everything between parties goes through the coordinator."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    async def send(self, to, stage, message):
        await self._session.send(0, f"{to} {stage}", message)

    async def receive(self, sender, stage, shape, dtype=np.uint64):
        return await self._session.receive(0, f"{sender} {stage}", shape, dtype)


async def run_relayed():
    """Three parties agree through the coordinator. Returns their keys, the coordinator's inbox, and what is secret."""
    members, network = (1, 2, 3), LocalNetwork(local_names(3), deadline_s=2.0)
    routes = itertools.product(itertools.permutations(members, 2), ("keys", COMMITMENT, REVEAL))
    inbox, secret_bytes = [], set()

    async def coordinator(session):
        waiting = list(routes)
        while waiting:
            for route in list(waiting):
                (sender, receiver), stage = route
                arrived = network.arrived(sender, 0, f"{receiver} {stage}")
                if arrived:
                    array = arrived.popleft().array
                    inbox.append((sender, receiver, stage, array.tobytes()))
                    await session.send(receiver, f"{sender} {stage}", array)
                    waiting.remove(route)
            await session.send(1, "pause", np.zeros(1, dtype=np.uint8))  # lets the others run

    async def party(session):
        relayed = RelayedSession(session)
        secrets = await agree_pairwise_secrets(relayed, members, 3)
        key = await HashKeys(relayed, members, secrets).agree("ids")
        secret_bytes.update({key._key, *(secret._key for secret in secrets.values())})
        return key

    results = await network.run({0: coordinator, **dict.fromkeys(members, party)})
    for member in members:  # what each drew: its X25519 key, then its contribution
        drawn = InsecureTestEntropy(f"member {member}")
        secret_bytes |= {drawn.read(32), drawn.read(32)}
    return [results[m] for m in members], inbox, secret_bytes


async def test_the_messages_may_be_relayed_by_the_coordinator():
    keys, inbox, _ = await run_relayed()
    assert len({key.digest(b"data") for key in keys}) == 1
    assert len(inbox) == 18


async def test_the_coordinator_cannot_compute_the_key_from_all_that_it_relays():
    """Its whole inbox is replayed against it: no 32 bytes in it are a secret, open a message, or make the key."""
    keys, inbox, secret_bytes = await run_relayed()
    binding = binding_of("local", local_names(3), b"")
    assert len(secret_bytes) == 1 + 3 + 6  # key, pairs, private keys and contributions
    windows = {data[i : i + 32] for *_, data in inbox for i in range(len(data) - 31)}
    assert not windows & secret_bytes
    key = keys[0].digest(b"data")
    sealed = [entry for entry in inbox if entry[2] != "keys"]
    for window in windows:
        assert HashKey(window, "ids").digest(b"data") != key
        made = combine(binding, "ids", window, dict.fromkeys((1, 2, 3), window))
        assert HashKey(made, "ids").digest(b"data") != key
        for sender, receiver, stage, data in sealed:
            secret = PairwiseSecret(window, frozenset((sender, receiver)))
            end = SealedChannel(secret, binding=binding, me=receiver, them=sender, their_name="party")
            with pytest.raises(PeerViolationError):
                end.open(stage, data)
