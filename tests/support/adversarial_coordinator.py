"""A coordinator that attacks: each method is one attack on real members, to be called where its round stands.

Every method lets the members meet the attack and returns, or raises what the attacked member raised.
"""

from dataclasses import replace

import numpy as np
from masked_sums import PUBLIC_INPUT, OpenRound, entropy_of, make_config, make_member, values_of

from entropy import InsecureTestEntropy
from mpc.errors import ProtocolError
from mpc.secagg.config import input_digest
from mpc.secagg.graph import Neighbourhood, draw_graph
from mpc.secagg.journal import MemoryJournal
from mpc.secagg.member.held_shares import SHARE_KIND, HeldShares
from mpc.secagg.member_tree import MemberTree
from mpc.secagg.messages import (
    MemberList,
    NeighbourList,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    UnmaskingShares,
    ring_transcript,
)
from mpc.secagg.secret.keys import IdentityKey, RoundKey, SealedChannel, pair_mask_key, self_mask_key
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.secret.secret_sharing import SHARE_BYTES, recombine_secret
from mpc.secagg.secret.surplus import n_opened_by, opened_seeds


class AdversarialCoordinator(OpenRound):
    """A round whose coordinator follows the protocol until one of these methods is called."""

    # -- who is alive ----------------------------------------------------------------------------------------------

    def leave_out_of_member_list(self, victim: int):
        present = tuple(ad for ad in self.member_list.advertisements if ad.member != victim)
        return self.members[victim].share_keys(MemberList(self.config.round_id, present))

    def say_it_shared_nothing(self, victim: int):
        honest = self.deliveries[victim]
        lie = replace(honest, sharers=tuple(m for m in honest.sharers if m != victim))
        return self.members[victim].mask_input(lie, values_of(victim))

    def declare_dead(self, victim: int):
        survivors = tuple(m for m in self.survivors.survivors if m != victim)
        return self.members[victim].sign_survivors(SurvivorList(self.config.round_id, survivors))

    def invent_survivor(self, victim: int, stranger: int):
        survivors = tuple(sorted({*self.survivors.survivors, stranger}))
        return self.members[victim].sign_survivors(SurvivorList(self.config.round_id, survivors))

    def let_too_few_survive(self, victim: int, survivors: tuple[int, ...]):
        return self.members[victim].sign_survivors(SurvivorList(self.config.round_id, survivors))

    def split_survivors(self, target: int, deceived: set[int], relay_all: bool):
        """Tell the deceived that the target has dropped out and the others that it lives; then ask for shares.

        Returns:
            Member to its unmasking shares, or to the error that it raised.
        """
        alive = self.survivors.survivors
        without = tuple(m for m in alive if m != target)
        signatures = {}
        for m in alive:
            shown = without if m in deceived else alive
            signatures[m] = self.members[m].sign_survivors(SurvivorList(self.config.round_id, shown))
        answers = {}
        for m in alive:
            agreeing = [s for i, s in signatures.items() if (i in deceived) == (m in deceived)]
            shown = list(signatures.values()) if relay_all else agreeing
            if m in deceived:
                shown = [s for s in shown if s.member != target]
            try:
                answers[m] = self.members[m].unmask(SignedSurvivors(self.config.round_id, tuple(shown)))
            except ProtocolError as error:
                answers[m] = error
        return answers

    def split_sharers(self, target: int, deceived: set[int]):
        """Tell the deceived that the target never shared its keys, and the others that it did; count it as dropped out.

        Returns:
            Member to its unmasking shares, or to the error that it raised.
        """
        present = tuple(m for m in self.deliveries if m != target)
        for m in present:
            shown = self.deliveries[m]
            if m in deceived:
                senders = [j for j in shown.sealed if j != target]
                transcripts, sealed = ({j: part[j] for j in senders} for part in (shown.transcripts, shown.sealed))
                shown = replace(shown, sharers=present, transcripts=transcripts, sealed=sealed)
            self.members[m].mask_input(shown, values_of(m))
        survivors = SurvivorList(self.config.round_id, present)
        signatures = tuple(self.members[m].sign_survivors(survivors) for m in present)
        return self._ask_all(present, SignedSurvivors(self.config.round_id, signatures))

    def _ask_all(self, members, signed: SignedSurvivors):
        answers = {}
        for m in members:
            try:
                answers[m] = self.members[m].unmask(signed)
            except ProtocolError as error:
                answers[m] = error
        return answers

    # -- more noise opened than is in excess -----------------------------------------------------------------------

    def count_as_survivors(self, dropped_out: set[int]) -> dict[int, UnmaskingShares]:
        """Say that these have sent their vectors too, to have more noise opened; return what the others release."""
        survivors = SurvivorList(self.config.round_id, tuple(sorted({*self.masked, *dropped_out})))
        signatures = tuple(self.members[m].sign_survivors(survivors) for m in self.masked)
        return self._ask_all(self.masked, SignedSurvivors(self.config.round_id, signatures))

    def opened_noise_seeds(self, answers: dict[int, UnmaskingShares], n_survivors: int) -> dict[int, tuple[bytes, ...]]:
        """The seeds that these shares open, of those whose vectors are there."""
        n_opened = n_opened_by(self.config.surplus_levels, n_survivors)
        return {
            m: opened_seeds(self._recombine({h: a.surplus_shares[m] for h, a in answers.items()}), n_opened)
            for m in self.masked
        }

    def take_masks_off(self, answers: dict[int, UnmaskingShares], mask_keys: dict[int, RoundKey]) -> np.ndarray:
        """The sum of the vectors that are there, without the masks that can be known.

        Args:
            answers: what members released: it opens their own masks.
            mask_keys: of members that gave theirs away: they open the masks in common with them.
        """
        config, group = self.config, self.config.group
        bound = {
            "transcript": next(iter(self.sealed.values())).transcript,
            "round_id": config.round_id,
            "vector": config.vector,
        }
        total, known = group.zeros(config.n_elements), []
        for m, masked in self.masked.items():
            group.accumulate(total, group.unpack(masked.elements, config.n_elements))
            seed = self._recombine({h: a.seed_shares[m] for h, a in answers.items() if m in a.seed_shares})
            known.append(Mask(self_mask_key(seed, **bound, member=m), is_negative=False))
            for other in mask_keys.keys() & self.coordinator._graph.neighbours(m):
                key = mask_keys[other]
                public = self.advertisements[m].mask_public
                known.append(Mask(pair_mask_key(key, public, **bound, pair=(m, other)), is_negative=other < m))
        apply_masks(group, total, [mask.opposite() for mask in known])
        return group.decode(total)

    def _recombine(self, shares: dict[int, bytes]) -> bytes:
        secret = recombine_secret(shares, self.config.topology.n_required)
        assert secret is not None
        return secret

    # -- both kinds of shares --------------------------------------------------------------------------------------

    def ask_for_the_other_kind(self, victim: int, target: int):
        """After the victim has signed one set, show it another without the target."""
        survivors = tuple(m for m in self.survivors.survivors if m != target)
        return self.members[victim].sign_survivors(SurvivorList(self.config.round_id, survivors))

    def ask_again_with_other_signatures(self, victim: int):
        return self.members[victim].unmask(SignedSurvivors(self.config.round_id, self.signed.signatures[:-1]))

    def ask_a_restarted_member(self, victim: int):
        """The victim crashed; its journal is what it has left."""
        return make_member(self.config, victim, journal=self.journals[victim])

    def retry_after_release(self, victim: int, config):
        return make_member(config, victim, journal=self.journals[victim])

    # -- who is who ------------------------------------------------------------------------------------------------

    def play_member(self, target: int, victim: int):
        """Advertise keys of our own in the target's name."""
        ours = make_member(
            self.config, target, journal=MemoryJournal(), entropy=InsecureTestEntropy("coordinator")
        ).advertise()
        forged = replace(ours, signature=IdentityKey(InsecureTestEntropy("coordinator")).sign(ours.signed_bytes()))
        return self._show_members(victim, target, forged)

    def swap_key(self, target: int, victim: int):
        """Keep the target's signature, put a key of ours under it."""
        ours = InsecureTestEntropy("coordinator").read(32)
        return self._show_members(victim, target, replace(self.advertisements[target], mask_public=ours))

    def propose(self, victim: int, policy=None, **changes):
        """Propose another configuration to the victim, who has heard of none before."""
        options = {} if policy is None else {"policy": policy}
        self.members[victim] = make_member(replace(self.config, **changes), victim, **options)
        return self.members[victim]

    def _show_members(self, victim: int, target: int, forged):
        shown = tuple(forged if ad.member == target else ad for ad in self.member_list.advertisements)
        return self.members[victim].share_keys(MemberList(self.config.round_id, shown))

    # -- different views -------------------------------------------------------------------------------------------

    @classmethod
    def with_another_input_for(cls, victim: int) -> "AdversarialCoordinator":
        round_ = cls(make_config(), {victim: {"public_input": b"another model"}})
        round_.advertisements = {m: member.advertise() for m, member in round_.members.items()}
        round_.member_list = MemberList(round_.config.round_id, tuple(round_.advertisements.values()))
        return round_

    @classmethod
    def with_another_configuration_for(cls, victim: int) -> "AdversarialCoordinator":
        round_ = cls(make_config())
        round_.propose(victim, vector="something else")
        round_.advertisements = {m: member.advertise() for m, member in round_.members.items()}
        round_.member_list = MemberList(round_.config.round_id, tuple(round_.advertisements.values()))
        return round_

    def split_member_lists(self, left_out: int, deceived: set[int], hide_it: bool):
        """Show the deceived a list without one member; then deliver, with the transcripts or with forged ones."""
        short = tuple(ad for ad in self.member_list.advertisements if ad.member != left_out)
        lists = {
            m: MemberList(self.config.round_id, short if m in deceived else self.member_list.advertisements)
            for m in self.members
            if m != left_out
        }
        sealed = {m: self.members[m].share_keys(shown) for m, shown in lists.items()}
        victim = min(set(lists) - deceived)
        senders = [m for m in sorted(lists) if m != victim]
        delivery = ShareDelivery(
            self.config.round_id,
            tuple(sorted(lists)),
            {m: sealed[victim if hide_it else m].transcript for m in senders},
            {m: sealed[m].sealed[victim] for m in senders},
        )
        return self.members[victim].mask_input(delivery, values_of(victim))

    # -- replays and tampering -------------------------------------------------------------------------------------

    def replay_advertisement(self, victim: int, target: int, old, relabelled: bool):
        shown = replace(old, round_id=self.config.round_id) if relabelled else old
        return self._show_members(victim, target, shown)

    def replay_sealed_shares(self, victim: int, sender: int, old: bytes):
        honest = self.deliveries[victim]
        return self.members[victim].mask_input(
            replace(honest, sealed={**honest.sealed, sender: old}), values_of(victim)
        )

    def pass_on_to_the_wrong_member(self, victim: int, sender: int, meant_for: int):
        return self.replay_sealed_shares(victim, sender, self.sealed[sender].sealed[meant_for])

    # -- neighbours ------------------------------------------------------------------------------------------------

    def begin_anew(self, member: int) -> None:
        """Put a fresh machine with the same keys in a member's place: it has heard of no list yet."""
        self.members[member] = make_member(self.config, member)

    def tree(self, left_out: int = 0) -> MemberTree:
        """The tree of all that have advertised, without one."""
        present = {m: ad for m, ad in self.advertisements.items() if m != left_out}
        return MemberTree(self.config.n_members, present)

    def ring(self, tree: MemberTree | None = None) -> Neighbourhood:
        """The graph that who is shown the root of this tree comes to; by default that of all that have advertised."""
        config, shown = self.config, tree or self.tree()
        inputs = input_digest(config.round_id, PUBLIC_INPUT)
        transcript = ring_transcript(config.digest, inputs, shown.root)
        return draw_graph(config.n_members, config.topology.degree, config.round_id, transcript)

    def neighbour_list(self, member: int, left_out: int = 0, tree: MemberTree | None = None) -> NeighbourList:
        """What a member is sent of a tree: by default of the tree of all that have advertised, without one."""
        tree = tree or self.tree(left_out)
        shown = sorted(self.ring(tree).neighbours(member) | {member})
        ads = tuple(self.advertisements[m] for m in shown if m in self.advertisements and m != left_out)
        return NeighbourList(self.config.round_id, tree.root, ads, {m: tree.path(m) for m in shown})

    def deliver_without(self, victim: int, sender: int):
        """Say that the sender has shared, but keep what it sealed: the pair would have no mask in common."""
        honest = self.deliveries[victim]
        sealed = {m: s for m, s in honest.sealed.items() if m != sender}
        return self.members[victim].mask_input(replace(honest, sealed=sealed), values_of(victim))

    def deliver_from(self, victim: int, senders: set[int], unsaid: frozenset[int] = frozenset()):
        """Deliver to the victim what these sealed for it; say that all have shared but the unsaid.

        Senders that are no neighbours of the victim collude: they seal something under their real keys.
        """
        mine = self.members[victim].share_keys(self.member_lists[victim])
        sealed = {}
        for m in sorted(senders):
            theirs = self.members[m].share_keys(self.member_lists[m]).sealed
            sealed[m] = theirs[victim] if victim in theirs else self._seal_as(m, victim, mine.transcript)
        sharers = tuple(m for m in sorted(self.advertisements) if m not in unsaid)
        delivery = ShareDelivery(self.config.round_id, sharers, dict.fromkeys(sealed, mine.transcript), sealed)
        return self.members[victim].mask_input(delivery, values_of(victim, self.config.n_elements))

    def split_rings(self, victim: int, deceived: int, left_out: int, hide_it: bool):
        """Show the deceived a root without one member, so that it stands on another ring; deliver what it seals."""
        mine = self.members[victim].share_keys(self.member_lists[victim])
        other = self.members[deceived].share_keys(self.neighbour_list(deceived, left_out))
        senders = sorted(mine.sealed.keys() - {left_out})
        honest = [m for m in senders if m != deceived]
        shares = {m: self.members[m].share_keys(self.member_lists[m]) for m in honest} | {deceived: other}
        delivery = ShareDelivery(
            self.config.round_id,
            tuple(m for m in sorted(self.advertisements) if m != left_out),
            {m: mine.transcript if hide_it else shares[m].transcript for m in senders},
            {m: shares[m].sealed[victim] for m in senders if victim in shares[m].sealed},
        )
        return self.members[victim].mask_input(delivery, values_of(victim, self.config.n_elements))

    def _seal_as(self, corrupt: int, victim: int, transcript: bytes) -> bytes:
        """What a corrupt member seals for whom it likes. It reads its keys in the order of the vectors' README."""
        channel = SealedChannel(
            RoundKey(entropy_of(corrupt).read(64)[32:]),
            self.advertisements[victim].channel_public,
            transcript=transcript,
            round_id=self.config.round_id,
            me=corrupt,
            them=victim,
        )
        return channel.seal(SHARE_KIND, HeldShares(bytes(SHARE_BYTES), bytes(SHARE_BYTES), ()).encode())
