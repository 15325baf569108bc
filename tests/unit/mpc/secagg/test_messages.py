from dataclasses import fields, replace

import pytest
from masked_sums import make_config, make_member

from mpc.secagg.messages import Advertisement, SurvivorSignature, member_transcript, seed_digest, survivor_digest
from mpc.transcript import RoundId

ROUND = RoundId("session", 3, 0)
ADS = tuple(make_member(make_config(), m).advertise() for m in (1, 2))


def test_the_transcript_depends_on_everything_agreed():
    base = member_transcript(b"c", b"i", ADS)
    assert base == member_transcript(b"c", b"i", tuple(replace(ad) for ad in ADS))
    others = [
        member_transcript(b"d", b"i", ADS),
        member_transcript(b"c", b"j", ADS),
        member_transcript(b"c", b"i", ADS[:1]),
        member_transcript(b"c", b"i", ADS[::-1]),
    ]
    for name in (f.name for f in fields(Advertisement)):
        other = {"round_id": RoundId("x", 0, 0), "member": 7}.get(name, b"\1" * 32)
        others.append(member_transcript(b"c", b"i", (ADS[0], replace(ADS[1], **{name: other}))))
    assert len({base, *others}) == 1 + len(others)


def test_the_signed_set_is_transcript_sharers_and_survivors():
    digests = {
        survivor_digest(*parts)
        for parts in (
            (b"t", (1, 2, 3), (1, 2)),
            (b"u", (1, 2, 3), (1, 2)),
            (b"t", (1, 2, 4), (1, 2)),
            (b"t", (1, 2, 3), (1, 3)),
            (b"t", (1, 2), (3, 1, 2)),
        )
    }
    assert len(digests) == 5


@pytest.mark.parametrize("change", [{"round_id": RoundId("session", 4, 0)}, {"member": 2}, {"set_digest": b"y" * 32}])
def test_a_survivor_signature_covers_all_of_it(change):
    signature = SurvivorSignature(ROUND, 1, b"x" * 32, b"")
    assert replace(signature, **change).signed_bytes() != signature.signed_bytes()


def test_seed_commitments_are_bound_to_round_and_member():
    others = {seed_digest(ROUND, 2, b"s"), seed_digest(RoundId("session", 4, 0), 1, b"s"), seed_digest(ROUND, 1, b"t")}
    assert len(others | {seed_digest(ROUND, 1, b"s")}) == 4
