"""The folder of one installation of a party: one service at a time, with a name by which the ledger knows it."""

import fcntl
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Self

from service.errors import ServiceError
from service.settings import SettingsError

if TYPE_CHECKING:
    from entropy import Entropy

_NAME_BYTES = 8
_NAME = re.compile(r"[0-9a-f]{16}")


class InstallationError(ServiceError):
    """The folder cannot be used, or another service is using it."""

    code = "data-folder-unusable"


class Installation:
    """A claim on a data folder, held until `close` or the end of the process.

    The lock says that no other service runs here, so that reservations in this installation's name are left over from
    one that has ended.

    Args:
        data_dir: data directory of the party; must exist.
        entropy: gives the name, once.

    Raises:
        InstallationError: another service holds it, or it cannot be written.
    """

    def __init__(self, data_dir: Path, entropy: "Entropy") -> None:
        path = data_dir / "installation"
        try:
            self._handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.name = self._read_or_write_name(entropy)
            except BaseException:
                os.close(self._handle)
                raise
        except BlockingIOError as error:
            raise InstallationError(f"another service runs in {data_dir}") from error
        except OSError as error:
            raise InstallationError(f"{path} cannot be used: {error.strerror}") from error

    @staticmethod
    def make_folder(data_dir: Path) -> None:
        """Make a data folder where there is none, for its owner only.

        Raises:
            SettingsError: it cannot be made there.
        """
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"data_dir: {data_dir} cannot be made: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another service claim the folder."""
        os.close(self._handle)

    def _read_or_write_name(self, entropy: "Entropy") -> str:
        name = os.pread(self._handle, 2 * _NAME_BYTES, 0).decode("ascii", "replace")
        if not _NAME.fullmatch(name):
            name = entropy.read(_NAME_BYTES).hex()
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, name.encode(), 0)
            os.fsync(self._handle)
        return name
