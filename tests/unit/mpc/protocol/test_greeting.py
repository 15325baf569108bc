import hashlib

import numpy as np
import pytest

from mpc.errors import PeerLostError, PeerViolationError
from mpc.local.network import LocalNetwork, local_names
from mpc.protocol.exchange import agree_pairwise_secrets, confirm_pairwise_secrets
from mpc.protocol.greeting import GREETING_STAGE, DifferentTermsError, binding_of, exchange_public_keys

NAMES = {0: "main", 1: "bank", 2: "hospital", 3: "telco"}
MEMBERS = (1, 2, 3)


def test_a_binding_is_the_hash_of_version_job_names_and_terms_each_after_its_length():
    def field(data):
        return len(data).to_bytes(8, "big") + data

    def number(n):
        return n.to_bytes(8, "big")

    roster = b"".join(field(field(number(n)) + field(name.encode())) for n, name in NAMES.items())
    whole = b"".join(map(field, (b"moiety protocol 2", b"binding", b"job-1", roster, b"terms")))
    assert binding_of("job-1", NAMES, b"terms") == hashlib.sha256(whole).digest()
    assert binding_of("job-1", dict(reversed(NAMES.items())), b"terms") == hashlib.sha256(whole).digest()


@pytest.mark.parametrize(
    "other",
    [
        ("job-2", NAMES, b"terms"),
        ("job-1", NAMES, b"other terms"),
        ("job-1", {**NAMES, 0: "another coordinator"}, b"terms"),
        ("job-1", {**NAMES, 1: "hospital", 2: "bank"}, b"terms"),
        ("job-1", {**NAMES, 4: "insurer"}, b"terms"),
    ],
)
def test_whoever_differs_in_one_thing_has_another_binding(other):
    assert binding_of(*other) != binding_of("job-1", NAMES, b"terms")


def terms_of(odd):
    return lambda member: b"epsilon 5000" if member in odd else b"epsilon 0.5"


async def greet_all(odd, fault=None, names=NAMES):
    network = LocalNetwork(names, terms_of=terms_of(odd), deadline_s=2.0)
    if fault is not None:
        network.fault = fault

    async def member(session):
        return await exchange_public_keys(session, [m for m in MEMBERS if m != session.me], b"key of %d" % session.me)

    return await network.run(dict.fromkeys(MEMBERS, member))


async def test_members_with_one_binding_learn_each_others_keys():
    ends = await greet_all(odd=())
    assert ends[1] == {2: b"key of 2", 3: b"key of 3"}


@pytest.mark.parametrize("odd", [(2,), (3,), (1, 2)])
async def test_with_two_bindings_every_member_finds_out_by_itself_and_names_coordinator_and_witness(odd):
    ends = await greet_all(odd)
    for member, error in ends.items():
        assert isinstance(error, DifferentTermsError)
        assert (error.member, error.stage) == (0, GREETING_STAGE)
        assert (error.witness in odd) != (member in odd)
        own, other = NAMES[member], NAMES[error.witness]
        assert error.what == (
            f"{other} says that it was shown another plan of this job than {own}: coordinator main showed different "
            f"plans to {own} and {other}, unless {other} does not tell the truth or runs another version"
        )


async def test_where_nobody_coordinates_the_other_member_is_named():
    ends = await greet_all((2,), names={1: "bank", 2: "hospital", 3: "telco"})
    assert (ends[1].member, ends[1].witness) == (2, 2)
    assert (
        ends[1].what
        == "hospital says that it takes part in another job than bank, with other members, or by other rules"
    )


async def test_a_member_that_speaks_an_earlier_version_is_refused_by_its_first_message():
    def fault(message):
        return (message.altered(message.array[32:]),) if message.sender == 3 else (message,)

    ends = await greet_all((), fault)
    assert isinstance(ends[1], PeerViolationError)
    assert ends[1].member == 3


async def test_a_lost_member_is_no_difference():
    network = LocalNetwork(NAMES, deadline_s=0.5)
    network.kill(3)
    ends = await network.run({1: lambda session: exchange_public_keys(session, [2, 3], b"key")})
    assert isinstance(ends[1], PeerLostError)


async def test_who_shows_a_binding_that_is_not_its_own_has_no_key_in_common_and_is_named():
    """Member 3 repeats the binding of the others. Its secrets are bound to its own terms all the same."""
    network = LocalNetwork(local_names(3), terms_of=terms_of((3,)), deadline_s=2.0)
    honest = np.frombuffer(network.session(1).binding, dtype=np.uint8)

    def fault(message):
        if message.stage != GREETING_STAGE:
            return (message,)
        told = message.array.copy()
        told[:32] = honest if message.receiver != 3 else np.frombuffer(network.session(3).binding, dtype=np.uint8)
        return (message.altered(told),)

    network.fault = fault
    secrets = {}

    async def member(session):
        secrets[session.me] = await agree_pairwise_secrets(session, MEMBERS, 3)
        await confirm_pairwise_secrets(session, secrets[session.me])

    ends = await network.run(dict.fromkeys(MEMBERS, member))
    assert secrets[1][2].digest("any", b"data") == secrets[2][1].digest("any", b"data")
    assert secrets[1][3].digest("any", b"data") != secrets[3][1].digest("any", b"data")
    for member in (1, 2):
        assert isinstance(ends[member], PeerViolationError)
        assert ends[member].member == 3
        assert "party-3 has a different pairwise secret" in ends[member].what
