"""State of a member that has advertised its keys, until it receives the list of participants."""

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
)
from mpc.secagg.graph import draw_graph
from mpc.secagg.member.awaiting_shares import AwaitingShares
from mpc.secagg.member.context import MemberContext
from mpc.secagg.member.held_shares import SHARE_KIND, HeldShares
from mpc.secagg.messages import Advertisement, MemberList, SealedShares, member_transcript, seed_digest
from mpc.secagg.secret.keys import RoundKey, SealedChannel, pair_mask_key, self_mask_key
from mpc.secagg.secret.secret_sharing import SECRET_BYTES, split_secret
from mpc.secagg.secret.surplus import SurplusSeeds
from mpc.secagg.stage import Stage


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

    def receive(self, members: MemberList) -> tuple[SealedShares, AwaitingShares]:
        """Check everybody's signed keys, agree on the graph, share my secrets among my holders.

        Raises:
            DifferentConfigurationError, DifferentInputError: a member received a different round than I did.
            ForgedSignatureError: a message was not signed by the member that it names.
            PeerViolationError: a public key is of low order.
            TooFewMembersError: too few take part, in all or among my neighbours.
        """
        context, config = self.context, self.context.config
        self._check_members(members)
        transcript = member_transcript(config.digest, context.input_digest, members.advertisements)
        by_number = {ad.member: ad for ad in members.advertisements}
        numbers = set(by_number)
        graph = draw_graph(config.n_members, config.topology.degree, config.round_id, transcript)
        neighbours = graph.neighbours(context.me) & numbers
        holders = graph.holders(context.me) & numbers
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
            members=tuple(by_number),
            own_mask_key=self._own_mask_key(transcript),
            pair_mask_keys={j: self._pair_mask_key(by_number[j], transcript) for j in sorted(neighbours)},
            channels=channels,
            own_shares=shares.get(context.me),
        )
        return SealedShares(config.round_id, context.me, transcript, sealed), state

    def _check_members(self, members: MemberList) -> None:
        context, config = self.context, self.context.config
        context.check_round(members.round_id, Stage.SHARE)
        numbers = [ad.member for ad in members.advertisements]
        context.check_set(numbers, range(1, config.n_members + 1), Stage.SHARE, "members")
        if self.advertisement not in members.advertisements:
            if context.me in numbers:
                raise InvalidSetError(COORDINATOR, Stage.SHARE, "the member list holds keys that we never advertised")
            raise DeclaredDeadError(
                COORDINATOR, Stage.SHARE, "the member list leaves us out, although we have answered"
            )
        for ad in members.advertisements:
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
