"""What may change in the configuration of a service that runs."""

import asyncio
import json
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from service.codes.coded_text import told
from service.codes.printed_time import printed_time
from service.errors import ServiceError
from service.files.private_report import keep_private
from service.settings import Settings
from service.settings_tree import SettingsError

_REFUSED = "reload-refused.json"
"""File of the data folder that says why the last reload was refused, for `moiety doctor`."""

_log = structlog.get_logger(__name__)


def guarded(reload: Callable[[], None]) -> Callable[[], None]:
    """Return what a service does at SIGHUP: it reads its files again, and goes on whatever becomes of that.

    Args:
        reload: raises a `ServiceError` or a `SettingsError` where nothing has changed.
    """

    def guarded_reload() -> None:
        try:
            reload()
        except (ServiceError, SettingsError) as error:
            _log.error("the reload is refused, and all stays as it was", reason=told(error))
        except Exception:
            _log.exception("the reload failed")

    return guarded_reload


@contextmanager
def at_hangup(told: Callable[[], None]) -> Iterator[None]:
    """Call `told` at each SIGHUP, in the running loop; one that a service has held since its start comes at once.

    Afterwards the signal is held again where it was before: it would end the process where nobody waits for it.
    """
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, told)
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        loop.remove_signal_handler(signal.SIGHUP)


def noted(reload: Callable[[], None], folder: Path) -> Callable[[], None]:
    """Return a reload that leaves a note in the service's data folder as long as it is refused."""

    def noted_reload() -> None:
        try:
            reload()
        except (ServiceError, SettingsError) as error:
            with suppress(OSError):
                keep_private(folder / _REFUSED, {"at_s": time.time(), "reason": told(error)})
            raise
        forget_refusal(folder)

    return noted_reload


def forget_refusal(folder: Path) -> None:
    """Remove the note: what the files say is in use."""
    with suppress(OSError):
        (folder / _REFUSED).unlink(missing_ok=True)


def last_refusal(folder: Path) -> str | None:
    """Return when and why the service of a data folder has refused to read its files again; None where it has not."""
    try:
        note = json.loads((folder / _REFUSED).read_text(encoding="utf-8"))
        return f"{printed_time(note['at_s'])}: {note['reason']}"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_changes(before: Settings, after: Settings, may_change: Collection[str]) -> list[str]:
    """Return the names of the fields that differ.

    Args:
        before: the configuration in use.
        after: the one that was read now; of the same model.
        may_change: the fields that a service takes over while it runs.

    Raises:
        SettingsError: a field differs that may not; the text names all of them.
    """
    differ = [name for name in type(before).model_fields if getattr(before, name) != getattr(after, name)]
    if fixed := [name for name in differ if name not in may_change]:
        raise SettingsError(f"{', '.join(fixed)}: changes only when the service is restarted; nothing was taken over")
    return differ
