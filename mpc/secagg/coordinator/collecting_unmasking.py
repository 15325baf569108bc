"""The coordinator's last stage: shares of one kind per member, from which the masks of the sum are rebuilt."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from mpc.errors import OutOfRangeError
from mpc.secagg.config import RoundConfig
from mpc.secagg.coordinator.collection import Collection
from mpc.secagg.coordinator.recovery import SecretRecovery
from mpc.secagg.graph import Neighbourhood
from mpc.secagg.messages import Advertisement, UnmaskingShares, seed_digest
from mpc.secagg.secret.keys import RoundKey, pair_mask_key, self_mask_key
from mpc.secagg.secret.mask import Mask, apply_masks
from mpc.secagg.secret.secret_sharing import check_share
from mpc.secagg.secret.surplus import belongs_to, n_opened_by, opened_seeds
from mpc.secagg.stage import Stage
from mpc.secagg.vector.group import Elements
from mpc.transcript import RoundId


@dataclass(frozen=True)
class ClosedStages:
    """The results of the earlier stages.

    Attributes:
        transcript: hash of what the members agreed on.
        graph: who is whose neighbour.
        advertisements: advertised keys by member.
        sharers, survivors: ascending.
        signers: survivors that have signed.
    """

    transcript: bytes
    graph: Neighbourhood
    advertisements: Mapping[int, Advertisement]
    sharers: tuple[int, ...]
    survivors: tuple[int, ...]
    signers: tuple[int, ...]


class CollectingUnmasking(Collection[UnmaskingShares]):
    """Collects unmasking shares, and removes the masks from the sum.

    Args:
        config: configuration of the round.
        before: the results of the earlier stages.
        total: sum of the survivors' masked vectors; unmasked in place.
    """

    def __init__(self, config: RoundConfig, before: ClosedStages, total: Elements) -> None:
        super().__init__(config, Stage.UNMASK, before.signers)
        self.before = before
        self._total = total
        self._sharers = frozenset(before.sharers)
        self._alive = frozenset(before.survivors)
        # owner to the answers of its holders
        self._shares: dict[int, dict[int, UnmaskingShares]] = {owner: {} for owner in before.sharers}
        self._n_unopenable = len(before.sharers)
        self._n_opened = n_opened_by(config.surplus_levels, len(before.survivors))

    def receive(self, shares: UnmaskingShares) -> None:
        """Take in one holder's shares.

        Raises:
            PeerViolationError: not exactly the shares that are due, or something that cannot be a share.
        """
        if not self.is_new(shares):
            return
        owners = self.before.graph.holders(shares.member) & self._sharers  # the relation is symmetric
        due = owners & self._alive
        if (
            set(shares.seed_shares) != due
            or set(shares.key_shares) != owners - self._alive
            or set(shares.surplus_shares) != (due if self._n_opened else set())
        ):
            raise self.violation(shares.member, "released shares that were not asked for, or left some out")
        for by_owner in (shares.seed_shares, shares.key_shares, shares.surplus_shares):
            for share in by_owner.values():
                try:
                    check_share(share)
                except OutOfRangeError as error:
                    raise self.violation(shares.member, "released bytes that are not a valid share") from error
        self.answers[shares.member] = shares
        for owner in owners:
            self._shares[owner][shares.member] = shares
            self._n_unopenable -= len(self._shares[owner]) == self.config.topology.n_required

    def has_quorum(self) -> bool:
        """Whether there are as many shares of each secret as open it."""
        return self._n_unopenable == 0

    def open(self) -> tuple[Elements, tuple[int, ...], dict[int, tuple[bytes, ...]]]:
        """Rebuild the masks and remove them from the sum.

        Returns:
            The sum; the members whose shares were corrupted; each survivor's opened surplus seeds.

        Raises:
            TooFewSharesError: too few holders of a member's shares have answered.
            WrongSharesError: a member's secret cannot be rebuilt, because too many of its shares are corrupted.

        Cost: one mask per survivor, and one per pair of a survivor and a neighbour that dropped out.
        """
        recovery = SecretRecovery(self.config)
        masks = [mask.opposite() for mask in [*self._self_masks(recovery), *self._pair_masks(recovery)]]
        surplus = self._surplus_seeds(recovery)
        apply_masks(self.config.group, self._total, masks)
        return self._total, recovery.liars, surplus

    def _self_masks(self, recovery: SecretRecovery) -> Iterator[Mask]:
        round_id = self.config.round_id
        for owner in self.before.survivors:
            expected = self.before.advertisements[owner].seed_digest
            seed = recovery.recover(
                owner,
                self._shares_of(owner, lambda answer: answer.seed_shares),
                partial(_is_seed, round_id, owner, expected),
            )
            key = self_mask_key(
                seed,
                transcript=self.before.transcript,
                round_id=round_id,
                vector=self.config.vector,
                member=owner,
            )
            yield Mask(key, is_negative=False)

    def _pair_masks(self, recovery: SecretRecovery) -> Iterator[Mask]:
        for owner in sorted(set(self.before.sharers) - self._alive):
            expected = self.before.advertisements[owner].mask_public
            secret = recovery.recover(
                owner,
                self._shares_of(owner, lambda answer: answer.key_shares),
                partial(_is_private_key, expected),
            )
            private = RoundKey(secret)
            for j in sorted(self.before.graph.neighbours(owner) & self._alive):
                key = pair_mask_key(
                    private,
                    self.before.advertisements[j].mask_public,
                    transcript=self.before.transcript,
                    round_id=self.config.round_id,
                    vector=self.config.vector,
                    pair=(owner, j),
                )
                yield Mask(key, is_negative=owner < j)

    def _surplus_seeds(self, recovery: SecretRecovery) -> dict[int, tuple[bytes, ...]]:
        if not self._n_opened:
            return {}
        opened = {}
        for owner in self.before.survivors:
            anchor = self.before.advertisements[owner].surplus_anchor
            last = recovery.recover(
                owner,
                self._shares_of(owner, lambda answer: answer.surplus_shares),
                partial(belongs_to, n_opened=self._n_opened, anchor=anchor),
            )
            opened[owner] = opened_seeds(last, self._n_opened)
        return opened

    def _shares_of(self, owner: int, kind: Callable[[UnmaskingShares], Mapping[int, bytes]]) -> dict[int, bytes]:
        return {holder: kind(answer)[owner] for holder, answer in sorted(self._shares[owner].items())}


def _is_seed(round_id: RoundId, owner: int, committed: bytes, secret: bytes) -> bool:
    return seed_digest(round_id, owner, secret) == committed


def _is_private_key(public: bytes, secret: bytes) -> bool:
    return RoundKey(secret).public_bytes == public
