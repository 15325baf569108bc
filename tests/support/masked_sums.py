"""Small rounds of masked sums for tests: configurations, members, and a round that can be stopped anywhere."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from analyses.sums.noise import SumNoise, SumSensitivity
from dp.cost.views import ADJACENCY
from entropy import InsecureTestEntropy
from mpc.secagg.config import RosterEntry, RoundConfig, Topology
from mpc.secagg.coordinator import SumCoordinator
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.member import SumMember
from mpc.secagg.policy import MemberPolicy
from mpc.secagg.secret.keys import IdentityKey
from mpc.secagg.simulation import run_locally
from mpc.secagg.vector.encoding import VectorEncoding
from mpc.secagg.vector.group import RingGroup
from mpc.transcript import RoundId

PUBLIC_INPUT = b"model 7"
LARGEST = 100


def identity_of(member: int) -> IdentityKey:
    return IdentityKey(InsecureTestEntropy(f"identity {member}"))


def entropy_of(member: int) -> InsecureTestEntropy:
    return InsecureTestEntropy(f"round entropy {member}")


def values_of(member: int, length: int = 12) -> np.ndarray:
    return np.random.default_rng(member).integers(-LARGEST, LARGEST + 1, length)


def make_roster(n_members: int) -> tuple[RosterEntry, ...]:
    return tuple(RosterEntry(i, f"party-{i}", identity_of(i).public_bytes) for i in range(1, n_members + 1))


def make_config(n_members: int = 5, length: int = 12, **changes) -> RoundConfig:
    fields = {
        "round_id": RoundId("session", 3, 0),
        "roster": make_roster(n_members),
        "topology": Topology.complete(n_members, 0),
        "group": RingGroup(20),
        "vector": "gradient",
        "encoding": VectorEncoding(length, float(LARGEST)),
    }
    return RoundConfig(**{**fields, **changes})


def make_policy(config: RoundConfig, **changes) -> MemberPolicy:
    pinned = {entry.name: entry.identity_public for entry in config.roster}
    return MemberPolicy(**{"pinned": pinned, "smallest_cohort": 2, "smallest_degree": 2, **changes})


def make_member(config: RoundConfig, me: int, **changes) -> SumMember:
    options = {
        "identity": identity_of(me),
        "policy": make_policy(config),
        "journal": MemoryJournal(),
        "public_input": PUBLIC_INPUT,
        "entropy": entropy_of(me),
    }
    return SumMember(config, me, **{**options, **changes})


def sum_noise(mu: int, length: int, levels: tuple[int, ...], n_corrupt: int) -> SumNoise:
    """Noise for tests that look at its values and not at its cost."""
    moved = {view: SumSensitivity.of_member(1, 1, adjacency, "vector") for view, adjacency in ADJACENCY.items()}
    return SumNoise(mu, length, levels, n_corrupt, moved)


def run(config: RoundConfig, **options):
    """The whole round, all in order but for those that drop out."""
    length = config.encoding.n_elements
    identities = {entry.number: identity_of(entry.number) for entry in config.roster}
    options = {"values_of": lambda m: values_of(m, length), "entropy_of": entropy_of, **options}
    return run_locally(config, identities=identities, public_input=PUBLIC_INPUT, **options)


def exact_sum(members, length: int = 12) -> np.ndarray:
    return sum(values_of(m, length) for m in members)


@dataclass
class OpenRound:
    """A round in progress: real members and a real coordinator, driven stage by stage by a test.

    Attributes:
        config: of the round.
        member_options: member to how it differs from `make_member`'s.
        noise_of: member and its surplus seeds to the noise that it adds; by default none.
    """

    config: RoundConfig = field(default_factory=make_config)
    member_options: dict = field(default_factory=dict)
    noise_of: Callable[[int, tuple[bytes, ...]], np.ndarray] = lambda member, seeds: None

    def __post_init__(self):
        self.coordinator = SumCoordinator(self.config, PUBLIC_INPUT)
        self.journals = {entry.number: MemoryJournal() for entry in self.config.roster}
        self.members = {
            i: make_member(self.config, i, **{"journal": self.journals[i], **self.member_options.get(i, {})})
            for i in self.journals
        }

    def without(self, members, dropped_out):
        return [m for m in members if m not in dropped_out]

    def advertise(self, dropped_out=()):
        self.advertisements = {m: self.members[m].advertise() for m in self.without(self.members, dropped_out)}
        for advertisement in self.advertisements.values():
            self.coordinator.receive(advertisement)
        self.member_lists = self.coordinator.close_advertising()
        return self.member_lists

    @property
    def member_list(self):
        """What all members of a complete graph are sent."""
        return next(iter(self.member_lists.values()))

    @member_list.setter
    def member_list(self, shown):
        self.member_lists = dict.fromkeys((ad.member for ad in shown.advertisements), shown)

    def share(self, dropped_out=()):
        present = self.without(self.member_lists, dropped_out)
        self.sealed = {m: self.members[m].share_keys(self.member_lists[m]) for m in present}
        for shares in self.sealed.values():
            self.coordinator.receive(shares)
        self.deliveries = dict(self.coordinator.close_sharing())
        return self.deliveries

    def mask(self, dropped_out=()):
        length = self.config.n_elements
        self.masked = {
            m: self.members[m].mask_input(
                self.deliveries[m], values_of(m, length), self.noise_of(m, self.members[m].surplus_seeds)
            )
            for m in self.without(self.deliveries, dropped_out)
        }
        for masked in self.masked.values():
            self.coordinator.receive(masked)
        self.survivors = self.coordinator.close_inputs()
        return self.survivors

    def sign(self, dropped_out=()):
        self.signatures = {
            m: self.members[m].sign_survivors(self.survivors)
            for m in self.without(self.survivors.survivors, dropped_out)
        }
        for signature in self.signatures.values():
            self.coordinator.receive(signature)
        self.signed = self.coordinator.close_signatures()
        return self.signed

    def unmask(self, dropped_out=()):
        signers = sorted(self.coordinator.waiting_for())
        self.unmasking = {m: self.members[m].unmask(self.signed) for m in self.without(signers, dropped_out)}
        for shares in self.unmasking.values():
            self.coordinator.receive(shares)
        return self.coordinator.open_sum()

    def up_to(self, stage: str) -> "OpenRound":
        """Run the stages before and including this one: advertise, share, mask, sign, unmask."""
        for name in ("advertise", "share", "mask", "sign", "unmask"):
            getattr(self, name)()
            if name == stage:
                return self
        raise ValueError(stage)


def all_bytes(value) -> bytes:
    """Every byte string inside a message, one after the other."""
    if isinstance(value, bytes):
        return value + b"|"
    if isinstance(value, dict):
        return b"".join(all_bytes(v) for v in value.values())
    if isinstance(value, tuple):
        return b"".join(all_bytes(v) for v in value)
    return b"".join(all_bytes(v) for v in vars(value).values()) if hasattr(value, "__dataclass_fields__") else b""


class RecordingEntropy:
    """Remembers what it gave out: every secret of a member starts from it."""

    def __init__(self, source):
        self.source, self.is_secure, self.given = source, source.is_secure, []

    def read(self, n_bytes):
        self.given.append(self.source.read(n_bytes))
        return self.given[-1]


def retried(config: RoundConfig) -> RoundConfig:
    return replace(config, round_id=replace(config.round_id, attempt=config.round_id.attempt + 1))
