"""State of a member that has advertised its keys, until it receives the list of participants."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from entropy import KeyStream
from entropy.stream import KEY_BYTES
from mpc.errors import PeerViolationError
from mpc.protocol.session import COORDINATOR
from mpc.secagg.errors import (
    DeclaredDeadError,
    DifferentConfigurationError,
    DifferentInputError,
    InvalidSetError,
    TooFewMembersError,
    UnprovenMemberError,
    WrongNeighboursError,
)
from mpc.secagg.graph import Neighbourhood, draw_graph
from mpc.secagg.member.awaiting_shares import AwaitingShares
from mpc.secagg.member.context import MemberContext
from mpc.secagg.member.held_shares import SHARE_KIND, HeldShares
from mpc.secagg.member_tree import is_proven
from mpc.secagg.messages import (
    Advertisement,
    MemberList,
    NeighbourList,
    SealedShares,
    member_transcript,
    ring_transcript,
    seed_digest,
)
from mpc.secagg.secret.keys import RoundKey, SealedChannel, pair_mask_key, self_mask_key
from mpc.secagg.secret.secret_sharing import SECRET_BYTES, split_secret
from mpc.secagg.secret.surplus import SurplusSeeds
from mpc.secagg.stage import Stage

Agreed = tuple[bytes, Neighbourhood, frozenset[int]]
"""The transcript, the graph, and members that are known to be absent: all of these in the complete graph, those among
one's neighbours on a ring."""


@dataclass(frozen=True)
class OwnSecrets:
    """A member's secrets of one round: drawn anew for each attempt, shared with the holders, then used once."""

    mask_key: RoundKey = field(repr=False)
    channel_key: RoundKey = field(repr=False)
    self_mask_seed: bytes = field(repr=False)
    surplus: SurplusSeeds = field(repr=False)


@dataclass(frozen=True)
class AwaitingMembers:
    """The state after the first answer."""

    context: MemberContext
    secrets: OwnSecrets = field(repr=False)
    advertisement: Advertisement

    @classmethod
    def begin(cls, context: MemberContext) -> "AwaitingMembers":
        """Draw fresh secrets and sign what is public of them. The round has been opened in the journal before.

        Reads 32 bytes of entropy for each: mask key, channel key, seed of the own mask, last surplus seed.
        """
        entropy, config = context.entropy, context.config
        secrets = OwnSecrets(
            RoundKey(entropy.read(KEY_BYTES)),
            RoundKey(entropy.read(KEY_BYTES)),
            entropy.read(SECRET_BYTES),
            SurplusSeeds(entropy, config.n_surplus_seeds),
        )
        unsigned = Advertisement(
            config.round_id,
            context.me,
            secrets.mask_key.public_bytes,
            secrets.channel_key.public_bytes,
            seed_digest(config.round_id, context.me, secrets.self_mask_seed),
            secrets.surplus.anchor if config.n_surplus_seeds else b"",
            config.digest,
            context.input_digest,
            b"",
        )
        signature = context.identity.sign(unsigned.signed_bytes())
        return cls(context, secrets, replace(unsigned, signature=signature))

    def receive(self, members: MemberList | NeighbourList) -> tuple[SealedShares, AwaitingShares]:
        """Check the signed keys of those I share with, agree on the graph, share my secrets among my holders.

        Raises:
            DifferentConfigurationError, DifferentInputError: a member received a different round than I did.
            ForgedSignatureError: a message was not signed by the member that it names.
            UnprovenMemberError: on a ring: somebody's keys, or absence, are not under the root.
            WrongNeighboursError: on a ring: others are shown than my neighbours.
            PeerViolationError: a public key is of low order.
            TooFewMembersError: too few take part, in all or among my neighbours.
        """
        context, config = self.context, self.context.config
        context.check_round(members.round_id, Stage.SHARE)
        if isinstance(members, MemberList):
            transcript, graph, absent = self._agreed_on_all(members)
        else:
            transcript, graph, absent = self._agreed_on_root(members)
        self._check_advertisements(members.advertisements)
        by_number = {ad.member: ad for ad in members.advertisements}
        neighbours = graph.neighbours(context.me) & by_number.keys()
        holders = graph.holders(context.me) & by_number.keys()
        if len(holders) < config.topology.n_required:
            raise TooFewMembersError(
                f"only {len(holders)} of our neighbours take part, but {config.topology.n_required} must hold shares"
            )
        channels = {j: self._channel(by_number[j], transcript) for j in sorted(neighbours)}
        shares = self._split(sorted(holders))
        sealed = {j: channel.seal(SHARE_KIND, shares[j].encode()) for j, channel in channels.items()}
        state = AwaitingShares(
            context=context,
            graph=graph,
            transcript=transcript,
            absent=absent,
            own_mask_key=self._own_mask_key(transcript),
            pair_mask_keys={j: self._pair_mask_key(by_number[j], transcript) for j in sorted(neighbours)},
            channels=channels,
            own_shares=shares.get(context.me),
        )
        return SealedShares(config.round_id, context.me, transcript, sealed), state

    def _agreed_on_all(self, members: MemberList) -> Agreed:
        """Return what the list of a complete graph makes all agree on: every member is in it or absent."""
        context, config = self.context, self.context.config
        everybody = range(1, config.n_members + 1)
        if not config.topology.is_complete:
            raise PeerViolationError(COORDINATOR, Stage.SHARE, "on a ring the members have to be proven under a root")
        numbers = [ad.member for ad in members.advertisements]
        context.check_set(numbers, everybody, Stage.SHARE, "members")
        self._check_own(members.advertisements)
        transcript = member_transcript(config.digest, context.input_digest, members.advertisements)
        graph = draw_graph(config.n_members, config.topology.degree, config.round_id, transcript)
        return transcript, graph, frozenset(everybody).difference(numbers)

    def _agreed_on_root(self, members: NeighbourList) -> Agreed:
        """Return what the root of a ring makes all agree on, once each neighbour is proven under it, or its absence.

        My own keys are proven first: nobody could draw this ring before I had advertised them.
        """
        context, config = self.context, self.context.config
        if config.topology.is_complete:
            raise PeerViolationError(COORDINATOR, Stage.SHARE, "in the complete graph all members have to be listed")
        numbers = [ad.member for ad in members.advertisements]
        context.check_order(numbers, range(1, config.n_members + 1), Stage.SHARE, "members")
        self._check_own(members.advertisements)
        self._check_proven(members, {context.me})
        transcript = ring_transcript(config.digest, context.input_digest, members.root)
        graph = draw_graph(config.n_members, config.topology.degree, config.round_id, transcript)
        shown = graph.neighbours(context.me) | {context.me}
        if set(members.paths) != shown or not shown.issuperset(numbers):
            what = "the coordinator showed keys of members that are not our neighbours in the graph, or left some out"
            raise WrongNeighboursError(COORDINATOR, Stage.SHARE, what)
        self._check_proven(members, shown)
        return transcript, graph, shown.difference(numbers)

    def _check_proven(self, members: NeighbourList, shown: AbstractSet[int]) -> None:
        config, by_number = self.context.config, {ad.member: ad for ad in members.advertisements}
        for member in sorted(shown):
            advertisement, path = by_number.get(member), members.paths.get(member, b"")
            if not is_proven(members.root, config.n_members, member, advertisement, path):
                what = f"the coordinator did not prove what it says of {config.name_of(member)} under the members' root"
                raise UnprovenMemberError(COORDINATOR, Stage.SHARE, what)

    def _check_own(self, advertisements: tuple[Advertisement, ...]) -> None:
        if self.advertisement in advertisements:
            return
        if any(ad.member == self.context.me for ad in advertisements):
            raise InvalidSetError(COORDINATOR, Stage.SHARE, "the member list holds keys that we never advertised")
        raise DeclaredDeadError(COORDINATOR, Stage.SHARE, "the member list leaves us out, although we have answered")

    def _check_advertisements(self, advertisements: tuple[Advertisement, ...]) -> None:
        context, config = self.context, self.context.config
        for ad in advertisements:
            context.check_round(ad.round_id, Stage.SHARE)
            context.check_signature(ad.member, ad.signature, ad.signed_bytes(), Stage.SHARE)
            name = config.name_of(ad.member)
            if ad.config_digest != config.digest:
                raise DifferentConfigurationError(
                    ad.member, Stage.SHARE, f"{name} has signed a configuration of this round that differs from ours"
                )
            if ad.input_digest != context.input_digest:
                raise DifferentInputError(
                    ad.member, Stage.SHARE, f"{name} has signed a public input that differs from ours"
                )

    def _channel(self, ad: Advertisement, transcript: bytes) -> SealedChannel:
        context = self.context
        try:
            return SealedChannel(
                self.secrets.channel_key,
                ad.channel_public,
                transcript=transcript,
                round_id=context.round_id,
                me=context.me,
                them=ad.member,
            )
        except ValueError as error:
            raise self._unusable(ad, "channel") from error

    def _pair_mask_key(self, ad: Advertisement, transcript: bytes) -> bytes:
        context = self.context
        try:
            return pair_mask_key(
                self.secrets.mask_key,
                ad.mask_public,
                transcript=transcript,
                round_id=context.round_id,
                vector=context.config.vector,
                pair=(context.me, ad.member),
            )
        except ValueError as error:
            raise self._unusable(ad, "mask") from error

    def _own_mask_key(self, transcript: bytes) -> bytes:
        context = self.context
        return self_mask_key(
            self.secrets.self_mask_seed,
            transcript=transcript,
            round_id=context.round_id,
            vector=context.config.vector,
            member=context.me,
        )

    def _unusable(self, ad: Advertisement, what: str) -> PeerViolationError:
        name = self.context.config.name_of(ad.member)
        return PeerViolationError(
            ad.member, Stage.SHARE, f"{name} advertised a {what} key that is not a usable X25519 public key"
        )

    def _split(self, holders: list[int]) -> dict[int, HeldShares]:
        n_required = self.context.config.topology.n_required
        stream = KeyStream(self.context.entropy.read(KEY_BYTES))
        seed = split_secret(self.secrets.self_mask_seed, n_required, holders, stream)
        key = split_secret(self.secrets.mask_key.private_bytes(), n_required, holders, stream)
        surplus = [split_secret(s, n_required, holders, stream) for s in self.secrets.surplus.seeds]
        return {j: HeldShares(seed[j], key[j], tuple(level[j] for level in surplus)) for j in holders}
