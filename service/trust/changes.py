"""What may change in the configuration of a service that runs."""

from collections.abc import Callable, Collection

import structlog

from service.codes.coded_text import told
from service.errors import ServiceError
from service.settings import Settings
from service.settings_tree import SettingsError

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
