"""The coordinator's first stage: signed keys of whoever takes part."""

from collections.abc import Mapping

from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator.collection import Collection
from mpc.secagg.coordinator.made_when_asked import MadeWhenAsked
from mpc.secagg.errors import DifferentConfigurationError, DifferentInputError, ForgedSignatureError
from mpc.secagg.graph import Neighbourhood
from mpc.secagg.member_tree import MemberTree
from mpc.secagg.messages import Advertisement, MemberList, NeighbourList, anchor_bytes
from mpc.secagg.secret.keys import is_signed_by, is_usable_public_key
from mpc.secagg.stage import Stage
from mpc.transcript import DIGEST_BYTES


class CollectingAdvertisements(Collection[Advertisement]):
    """Collects advertisements; members that send none by the end of the stage do not take part.

    Args:
        config: configuration of the round.
        input_digest: digest of its public input.
    """

    def __init__(self, config: RoundConfig, input_digest: bytes) -> None:
        super().__init__(config, Stage.ADVERTISE, range(1, config.n_members + 1))
        self.input_digest = input_digest

    def receive(self, ad: Advertisement) -> None:
        """Take in one advertisement.

        Raises:
            ForgedSignatureError, DifferentConfigurationError, DifferentInputError: members would abort on it.
            PeerViolationError: a key is of low order, or a length is wrong.
        """
        if not self.is_new(ad):
            return
        config, name = self.config, self.config.name_of(ad.member)
        if not is_signed_by(config.roster[ad.member - 1].identity_public, ad.signature, ad.signed_bytes()):
            raise ForgedSignatureError(
                ad.member, self.stage, f"the advertisement in the name of {name} was not signed with the key of {name}"
            )
        if ad.config_digest != config.digest:
            raise DifferentConfigurationError(
                ad.member, self.stage, f"{name} has signed a configuration that differs from ours"
            )
        if ad.input_digest != self.input_digest:
            raise DifferentInputError(ad.member, self.stage, f"{name} has signed a public input that differs from ours")
        if not (is_usable_public_key(ad.mask_public) and is_usable_public_key(ad.channel_public)):
            raise self.violation(ad.member, "advertised a key that is not a usable X25519 public key")
        if len(ad.seed_digest) != DIGEST_BYTES or len(ad.surplus_anchor) != anchor_bytes(config):
            raise self.violation(ad.member, "advertised commitments of a wrong length")
        self.answers[ad.member] = ad

    def member_list(self) -> MemberList:
        """Close the stage and return who takes part.

        Raises:
            TooFewMembersError: too few answered.
        """
        return MemberList(
            self.config.round_id, tuple(self.answers[m] for m in self.close(self.config.topology.fewest_survivors))
        )

    def neighbour_lists(self, tree: MemberTree, graph: Neighbourhood) -> Mapping[int, NeighbourList]:
        """Return what goes to each member of a ring: its neighbours, proven under the root of the tree."""

        def list_of(member: int) -> NeighbourList:
            shown = sorted(graph.neighbours(member) | {member})
            present = tuple(self.answers[m] for m in shown if m in self.answers)
            return NeighbourList(self.config.round_id, tree.root, present, {m: tree.path(m) for m in shown})

        return MadeWhenAsked(sorted(self.answers), list_of)
