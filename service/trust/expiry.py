"""Warnings before a certificate or a revocation list expires, every day as long as a service runs."""

import asyncio
from collections.abc import Callable

import structlog

from service.tls import Credentials

DAY_S = 86_400.0

_log = structlog.get_logger(__name__)


async def warn_every_day(current: Callable[[], Credentials], name: str) -> None:
    """Log what expires soon, at once and then every day, until cancelled.

    Args:
        current: the credentials in use.
        name: name of the member.
    """
    while True:
        for text in current().expiry_warnings():
            _log.warning(text, name=name)
        await asyncio.sleep(DAY_S)
