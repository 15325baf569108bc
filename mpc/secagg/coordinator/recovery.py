"""Rebuilding secrets from shares of which some may be wrong: each secret has been committed to."""

from collections.abc import Callable, Mapping

from mpc.errors import TooFewSharesError
from mpc.secagg.config import RoundConfig
from mpc.secagg.errors import WrongSharesError
from mpc.secagg.secret.secret_sharing import recombine_secret
from mpc.secagg.stage import Stage


class SecretRecovery:
    """Rebuilds secrets of one round and remembers who lied.

    Args:
        config: of the round.
    """

    def __init__(self, config: RoundConfig) -> None:
        self._config = config
        self._n_required = config.topology.n_required
        self._liars: set[int] = set()

    @property
    def liars(self) -> tuple[int, ...]:
        """Holders whose shares were wrong, ascending."""
        return tuple(sorted(self._liars))

    def recover(self, owner: int, shares: Mapping[int, bytes], is_right: Callable[[bytes], bool]) -> bytes:
        """Return the secret of `owner`.

        Where the shares recombine to something else than the owner committed to, each one in turn is replaced by a
        spare one; if that helps, its holder lied, and its shares are used no more.

        Args:
            owner: whose secret.
            shares: holder to share.
            is_right: whether a secret is the one that the owner committed to.

        Raises:
            TooFewSharesError: fewer are there than required.
            WrongSharesError: more than one share is wrong, or one and there is no spare: names the owner.
        """
        trusted = {holder: share for holder, share in shares.items() if holder not in self._liars}
        name = self._config.name_of(owner)
        if len(trusted) < self._n_required:
            raise TooFewSharesError(
                f"{len(trusted)} holders of shares of {name} have answered; {self._n_required} must"
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
            f"the shares of {name} do not recombine to what it committed to: it dealt wrong shares, or a holder lied",
        )
