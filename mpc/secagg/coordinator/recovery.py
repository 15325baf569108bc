"""Rebuilding secrets from shares of which some may be corrupted, by means of commitments to the secrets."""

from collections.abc import Callable, Mapping

from mpc.errors import TooFewSharesError
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import WrongSharesError
from mpc.secagg.secret.secret_sharing import recombine_secret
from mpc.secagg.stage import Stage


class SecretRecovery:
    """Rebuilds secrets of one round and records which members sent corrupted shares.

    Args:
        config: configuration of the round.
    """

    def __init__(self, config: RoundConfig) -> None:
        self._config = config
        self._n_required = config.topology.n_required
        self._liars: set[int] = set()

    @property
    def liars(self) -> tuple[int, ...]:
        """Holders whose shares were corrupted, ascending."""
        return tuple(sorted(self._liars))

    def recover(self, owner: int, shares: Mapping[int, bytes], is_right: Callable[[bytes], bool]) -> bytes:
        """Return the secret of `owner`.

        If the shares do not recombine to the secret that the owner committed to, each share in turn is replaced by a
        spare one. If that helps, the share was corrupted, and the shares of its holder are not used any more.

        Args:
            owner: member whose secret it is.
            shares: holder to share.
            is_right: whether a secret is the one that the owner committed to.

        Raises:
            TooFewSharesError: fewer are there than required.
            WrongSharesError: more than one share is corrupted, or one is and there is no spare share: names the owner.
        """
        trusted = {holder: share for holder, share in shares.items() if holder not in self._liars}
        name = self._config.name_of(owner)
        if len(trusted) < self._n_required:
            raise TooFewSharesError(
                f"only {len(trusted)} holders of shares of {name} have answered, but {self._n_required} are needed"
            )
        secret = recombine_secret(trusted, self._n_required)
        if secret is not None and is_right(secret):
            return secret
        used = sorted(trusted)[: self._n_required]
        if len(trusted) > self._n_required:
            for suspect in used:
                others = {holder: share for holder, share in trusted.items() if holder != suspect}
                secret = recombine_secret(others, self._n_required)
                if secret is not None and is_right(secret):
                    self._liars.add(suspect)
                    return secret
        raise WrongSharesError(
            owner,
            Stage.UNMASK,
            f"the shares of {name} do not recombine to the secret that it committed to: it dealt corrupted shares, or "
            "a holder sent a corrupted one",
        )
