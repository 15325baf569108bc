"""Test vectors of masked sums: how they are made, written and read. The format is in tests/vectors/secagg/README.md.

PYTHONPATH=.:proto:tests/support python tests/support/secagg_vectors.py        writes all of them anew
"""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from masked_sums import OpenRound, identity_of, make_config, make_member, sum_noise, values_of

from entropy import InsecureTestEntropy, KeyStream
from mpc.protocol.session import COORDINATOR
from mpc.secagg import messages
from mpc.secagg.config import RoundConfig, Topology
from mpc.secagg.graph import draw_ring
from mpc.secagg.member_tree import MemberTree
from mpc.secagg.vector.encoding import Rounding, VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.secagg.vector.prime_group import PrimeGroup
from mpc.transcript import RoundId

FOLDER = Path(__file__).parents[1] / "vectors" / "secagg"

TYPES = {
    cls.__name__: cls
    for cls in (
        messages.Advertisement,
        messages.MemberList,
        messages.SealedShares,
        messages.ShareDelivery,
        messages.MaskedInput,
        messages.SurvivorList,
        messages.SurvivorSignature,
        messages.SignedSurvivors,
        messages.UnmaskingShares,
    )
}

STAGES = ("advertise", "share", "mask", "sign", "unmask")


def to_json(value: Any) -> Any:
    """Bytes become hexadecimal text, maps are keyed by text, a message says its type."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in sorted(value.items())}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, RoundId):
        return [value.session, value.number, value.attempt]
    if type(value).__name__ in TYPES:
        return {"type": type(value).__name__, **{f.name: to_json(getattr(value, f.name)) for f in fields(value)}}
    return value


def from_json(value: Any) -> Any:
    """Read a message that `to_json` wrote."""
    cls = TYPES[value["type"]]
    read = {}
    for f in fields(cls):
        raw = value[f.name]
        if f.name == "round_id":
            read[f.name] = RoundId(*raw)
        elif isinstance(raw, str):
            read[f.name] = bytes.fromhex(raw)
        elif isinstance(raw, dict):
            read[f.name] = {int(key): bytes.fromhex(item) for key, item in raw.items()}
        elif isinstance(raw, list):
            read[f.name] = tuple(from_json(item) if isinstance(item, dict) else item for item in raw)
        else:
            read[f.name] = raw
    return cls(**read)


def config_named(name: str) -> RoundConfig:
    return {
        "powers": lambda: make_config(
            4, 6, group=RingGroup(20), topology=Topology.complete(4, 0), surplus_levels=(3, 4)
        ),
        "prime": lambda: make_config(3, 5, group=PrimeGroup(), topology=Topology.complete(3, 0)),
        "noisy": lambda: make_config(
            4, NOISE.length, group=RingGroup(24), topology=Topology.complete(4, 0), surplus_levels=NOISE.levels
        ),
    }[name]()


ROUNDS = ("powers", "prime", "noisy")
DROPOUTS = {"powers": {"mask": {3}}, "prime": {"share": {1}}, "noisy": {"unmask": {2}}}
"""Round to stage to who does not answer any more from it on."""

NOISE = sum_noise(mu=1000, length=5, levels=(3, 4), n_corrupt=0)
"""Noise of the round "noisy": all four members survive, so one component of each is opened and removed."""


def noise_of(member: int, seeds: tuple[bytes, ...]) -> np.ndarray:
    return NOISE.draw(InsecureTestEntropy(f"base noise {member}"), seeds)


def run_round(name: str) -> OpenRound:
    options = {"noise_of": noise_of} if name == "noisy" else {}
    round_ = OpenRound(config_named(name), **options)
    for stage in STAGES:
        result = getattr(round_, stage)(dropped_out=DROPOUTS[name].get(stage, set()))
    round_.opened = result
    return round_


def round_vector(name: str) -> dict[str, Any]:
    round_ = run_round(name)
    noise = {}
    if name == "noisy":
        noise["noise"] = {str(m): noise_of(m, member.surplus_seeds).tolist() for m, member in round_.members.items()}
        noise["sum_after_removal"] = NOISE.remove_surplus(round_.opened).integers().tolist()
    return {
        "round": name,
        "config_digest": round_.config.digest.hex(),
        "transcript": next(iter(round_.sealed.values())).transcript.hex(),
        "vectors": {str(m): values_of(m, round_.config.n_elements).tolist() for m in round_.members},
        "messages": {
            "advertise": {"from": to_json(round_.advertisements), "to_all": to_json(round_.member_list)},
            "share": {"from": to_json(round_.sealed), "to": to_json(round_.deliveries)},
            "mask": {"from": to_json(round_.masked), "to_all": to_json(round_.survivors)},
            "sign": {"from": to_json(round_.signatures), "to_all": to_json(round_.signed)},
            "unmask": {"from": to_json(round_.unmasking)},
        },
        "sum": round_.opened.integers().tolist(),
        "surplus_seeds": {str(m): [s.hex() for s in seeds] for m, seeds in round_.opened.surplus_seeds.items()},
        **noise,
    }


def bad_messages() -> dict[str, dict[str, Any]]:
    """Damage to one message to member 2 of the round "powers", and the error that it raises there."""
    round_ = run_round("powers")
    ads, delivery = round_.member_list.advertisements, round_.deliveries[2]
    signatures, survivors = round_.signed.signatures, round_.survivors.survivors
    other = make_member(round_.config, 4, public_input=b"another model").advertise()
    elsewhere = make_member(replace(round_.config, vector="weights"), 4).advertise()

    def listed(changed):
        return replace(round_.member_list, advertisements=tuple(changed if ad.member == 4 else ad for ad in ads))

    def signed(**changes):
        return replace(round_.signed, signatures=(*signatures[:-1], replace(signatures[-1], **changes)))

    damaged = {
        "advertisement_with_swapped_key": (
            "share",
            listed(replace(ads[3], mask_public=bytes([7] * 32))),
            "ForgedSignatureError",
        ),
        "advertisement_by_somebody_else": ("share", listed(replace(ads[2], member=4)), "ForgedSignatureError"),
        "advertisement_of_another_round": (
            "share",
            listed(replace(ads[3], round_id=RoundId("session", 2, 0))),
            "WrongRoundError",
        ),
        "advertisement_with_another_input": ("share", listed(other), "DifferentInputError"),
        "advertisement_with_another_configuration": ("share", listed(elsewhere), "DifferentConfigurationError"),
        "member_list_without_me": (
            "share",
            replace(round_.member_list, advertisements=(ads[0], *ads[2:])),
            "DeclaredDeadError",
        ),
        "member_list_too_short": ("share", replace(round_.member_list, advertisements=ads[:2]), "TooFewMembersError"),
        "member_list_out_of_order": ("share", replace(round_.member_list, advertisements=ads[::-1]), "InvalidSetError"),
        "member_list_of_another_round": (
            "share",
            replace(round_.member_list, round_id=RoundId("session", 3, 1)),
            "WrongRoundError",
        ),
        "delivery_of_another_transcript": (
            "mask",
            replace(delivery, transcripts={**delivery.transcripts, 4: bytes(32)}),
            "SplitMembersError",
        ),
        "delivery_with_altered_shares": (
            "mask",
            replace(delivery, sealed={**delivery.sealed, 4: delivery.sealed[4][:-1] + b"\0"}),
            "UnopenableShareError",
        ),
        "delivery_with_exchanged_shares": (
            "mask",
            replace(delivery, sealed={**delivery.sealed, 4: delivery.sealed[1]}),
            "UnopenableShareError",
        ),
        "delivery_without_a_neighbour": (
            "mask",
            replace(delivery, sealed={j: s for j, s in delivery.sealed.items() if j != 4}),
            "WrongNeighboursError",
        ),
        "delivery_that_leaves_me_out": ("mask", replace(delivery, sharers=(1, 3, 4)), "DeclaredDeadError"),
        "survivors_without_me": ("sign", replace(round_.survivors, survivors=(1, 3, 4)), "DeclaredDeadError"),
        "survivors_too_few": ("sign", replace(round_.survivors, survivors=(1, 2)), "TooFewMembersError"),
        "survivors_with_a_stranger": ("sign", replace(round_.survivors, survivors=(*survivors, 5)), "InvalidSetError"),
        "signature_of_another_set": (
            "unmask",
            signed(
                set_digest=(digest := bytes([1] * 32)),
                signature=_sign_as(4, replace(signatures[-1], set_digest=digest)),
            ),
            "SplitSurvivorsError",
        ),
        "signature_by_somebody_else": ("unmask", signed(signature=signatures[0].signature), "ForgedSignatureError"),
        "signatures_too_few": ("unmask", replace(round_.signed, signatures=signatures[:2]), "TooFewSignaturesError"),
        "signatures_repeated": ("unmask", replace(round_.signed, signatures=(signatures[0],) * 3), "InvalidSetError"),
    }
    return {
        f"bad_{name}": {"round": "powers", "member": 2, "stage": stage, "message": to_json(message), "error": error}
        for name, (stage, message, error) in damaged.items()
    }


def bad_messages_to_the_coordinator() -> dict[str, dict[str, Any]]:
    """Damage to one message of a member, at whose stage the coordinator has all earlier ones, and its error."""
    round_ = run_round("powers")
    ad, sealed, masked = round_.advertisements[4], round_.sealed[4], round_.masked[4]
    signature, shares = round_.signatures[4], round_.unmasking[4]
    other_round = RoundId("session", 3, 1)

    def signed(**changes):
        changed = replace(ad, **changes)
        return replace(changed, signature=identity_of(4).sign(changed.signed_bytes()))

    def sealed_as(changes):
        return replace(sealed, sealed={**sealed.sealed, **changes})

    def released(**changes):
        return replace(shares, **{name: {**getattr(shares, name), **more} for name, more in changes.items()})

    share = shares.seed_shares[1]
    less = {owner: one for owner, one in shares.seed_shares.items() if owner != 1}
    damaged = {
        "advertise": {
            "swapped_key": (replace(ad, mask_public=bytes([7] * 32)), "ForgedSignatureError"),
            "by_somebody_else": (replace(round_.advertisements[3], member=4), "ForgedSignatureError"),
            "by_a_stranger": (replace(ad, member=5), "InvalidSetError"),
            "of_another_round": (signed(round_id=other_round), "WrongRoundError"),
            "another_input": (signed(input_digest=bytes(32)), "DifferentInputError"),
            "another_configuration": (signed(config_digest=bytes(32)), "DifferentConfigurationError"),
            "low_order_mask_key": (signed(mask_public=bytes(32)), "PeerViolationError"),
            "low_order_channel_key": (signed(channel_public=bytes(32)), "PeerViolationError"),
            "no_anchor": (signed(surplus_anchor=b""), "PeerViolationError"),
            "short_commitment": (signed(seed_digest=bytes(31)), "PeerViolationError"),
        },
        "share": {
            "of_another_round": (replace(sealed, round_id=other_round), "WrongRoundError"),
            "another_transcript": (replace(sealed, transcript=bytes(32)), "SplitMembersError"),
            "for_a_stranger": (sealed_as({5: sealed.sealed[1]}), "WrongNeighboursError"),
            "not_for_a_neighbour": (
                replace(sealed, sealed={m: one for m, one in sealed.sealed.items() if m != 1}),
                "WrongNeighboursError",
            ),
            "cut_short": (sealed_as({1: sealed.sealed[1][:-1]}), "PeerViolationError"),
        },
        "mask": {
            "of_another_round": (replace(masked, round_id=other_round), "WrongRoundError"),
            "by_a_stranger": (replace(masked, member=5), "InvalidSetError"),
            "cut_short": (replace(masked, elements=masked.elements[:-1]), "PeerViolationError"),
            "too_long": (replace(masked, elements=masked.elements + b"\0"), "PeerViolationError"),
        },
        "sign": {
            "of_another_round": (replace(signature, round_id=other_round), "WrongRoundError"),
            "of_another_set": (
                replace(
                    signature,
                    set_digest=(digest := bytes([1] * 32)),
                    signature=_sign_as(4, replace(signature, set_digest=digest)),
                ),
                "SplitSurvivorsError",
            ),
            "by_somebody_else": (
                replace(signature, signature=round_.signatures[1].signature),
                "ForgedSignatureError",
            ),
            "by_the_vanished": (replace(signature, member=3), "InvalidSetError"),
        },
        "unmask": {
            "of_another_round": (replace(shares, round_id=other_round), "WrongRoundError"),
            "by_the_vanished": (replace(shares, member=3), "InvalidSetError"),
            "both_kinds_of_one_member": (released(key_shares={1: share}), "PeerViolationError"),
            "the_other_kind": (released(seed_shares={3: share}), "PeerViolationError"),
            "one_too_few": (replace(shares, seed_shares=less), "PeerViolationError"),
            "surplus_that_is_not_due": (released(surplus_shares={1: share}), "PeerViolationError"),
            "beyond_the_prime": (released(seed_shares={1: b"\xff" * 33}), "PeerViolationError"),
            "cut_short": (released(key_shares={3: share[:-1]}), "PeerViolationError"),
        },
    }
    beyond = replace(run_round("prime").masked[2], elements=b"\xff" * config_named("prime").group.wire_bytes(5))
    found = {
        f"bad_to_coordinator_{stage}_{name}": {
            "round": "powers",
            "member": COORDINATOR,
            "stage": stage,
            "message": to_json(message),
            "error": error,
        }
        for stage, cases in damaged.items()
        for name, (message, error) in cases.items()
    }
    found["bad_to_coordinator_mask_beyond_the_prime"] = {
        "round": "prime",
        "member": COORDINATOR,
        "stage": "mask",
        "message": to_json(beyond),
        "error": "PeerViolationError",
    }
    return found


def _sign_as(member: int, signature: messages.SurvivorSignature) -> bytes:
    return identity_of(member).sign(signature.signed_bytes())


def primitives() -> dict[str, Any]:
    """Masks, rings and encodings for given keys and labels."""
    key = bytes(range(32))
    groups = [
        RingGroup(16),
        RingGroup(20),
        RingGroup(32),
        RingGroup(64),
        PrimeGroup(),
    ]
    masks = []
    for group in groups:
        drawn = group.zeros(5)
        group.draw(KeyStream(key), drawn)
        masks.append({"group": group.name, "key": key.hex(), "packed": group.pack(drawn).hex()})
    vector = [0.25, -1.75, 3.0, 0.0, 0.5]
    encodings = []
    for rule in (
        VectorEncoding(5, 2.0, units=8),
        VectorEncoding(5, 2.0, units=8, rounding=Rounding.STOCHASTIC),
        VectorEncoding(5, 2.0, units=100, norm_clip=1.0, rotation="label"),
        VectorEncoding(5, 2.0, units=8, largest_weight=10),
    ):
        weight = 3 if rule.largest_weight else None
        encoded = rule.encode(vector, InsecureTestEntropy("rounding"), weight)
        encodings.append({"rule": rule.encode_rule().hex(), "weight": weight, "integers": encoded.values.tolist()})
    ring = draw_ring(range(1, 201), 40, RoundId("session", 3, 0), bytes(32))
    return {
        "masks": masks,
        "vector": vector,
        "encodings": encodings,
        "ring_of_200": list(ring.order),
        "tree": tree_of_powers(),
    }


def tree_of_powers() -> dict[str, Any]:
    """The tree of the round "powers" without member 3."""
    ads = {m: ad for m, ad in run_round("powers").advertisements.items() if m != 3}
    tree = MemberTree(4, ads)
    return {"root": tree.root.hex(), "paths": {str(m): tree.path(m).hex() for m in range(1, 5)}}


def all_vectors() -> dict[str, dict[str, Any]]:
    """File name, without its ending, to content."""
    return {
        **{f"round_{name}": round_vector(name) for name in ROUNDS},
        "primitives": primitives(),
        **bad_messages(),
        **bad_messages_to_the_coordinator(),
    }
