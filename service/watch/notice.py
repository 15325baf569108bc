"""Tells the owner that a job waits: by a command of the owner's, or by a web hook.

What is told names the job, and nothing of data or cost: it leaves the party. Whether it arrives changes nothing; the
job waits as long as it would.
"""

import asyncio
import ipaddress
import json
import os
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import structlog
from pydantic import SecretStr, model_validator

from service.settings import Settings

COMMAND_S = 30.0
WEBHOOK_S = 10.0

log = structlog.get_logger()


class NoticeConfig(Settings):
    """Section `[notice]`: how the owner hears that a job waits for approval.

    Attributes:
        command: a program and its arguments, run without a shell; it gets a JSON object on its standard input.
        webhook: a URL, `https://...`, to which the object is posted; it often holds a secret, so give it by the
            environment (`MOIETY_PARTY__NOTICE__WEBHOOK`). Redirections are not followed.
    """

    command: tuple[str, ...] = ()
    webhook: SecretStr | None = None

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        if not self.command and self.webhook is None:
            raise ValueError("command, webhook: give at least one of them")
        if self.webhook is not None and not _is_private(self.webhook.get_secret_value()):
            raise ValueError("webhook: must be a https:// URL, or http:// at a loopback address")
        return self


def _is_private(url: str) -> bool:
    try:
        parts = urlsplit(url)
        if parts.scheme == "https" and parts.hostname:
            return True
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow none."""


async def tell_owner(config: NoticeConfig, party: str, question: Mapping[str, Any]) -> None:
    """Run the command and call the web hook, at the same time; what fails is logged.

    Args:
        config: section `[notice]`.
        party: this one.
        question: what the owner is asked (`party.admission`).
    """
    told = {
        "party": party,
        "job_id": question["job_id"],
        "analysis": question["analysis"],
        "analyst": question["analyst"],
        "deadline_s": question["deadline_s"],
    }
    text = json.dumps(told).encode() + b"\n"
    ways = []
    if config.command:
        ways.append(_attempt("command", _run(config.command, text), question["job_id"]))
    if config.webhook is not None:
        posting = asyncio.to_thread(_post, config.webhook.get_secret_value(), text)
        ways.append(_attempt("webhook", posting, question["job_id"]))
    await asyncio.gather(*ways)


async def _attempt(way: str, doing: Any, job_id: str) -> None:
    try:
        await doing
    except Exception as error:  # its text may hold the URL
        log.warning("the owner could not be told that a job waits", job=job_id, way=way, error=type(error).__name__)


async def _run(command: tuple[str, ...], text: bytes) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MOIETY_")}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=environment
    )
    try:
        async with asyncio.timeout(COMMAND_S):
            await process.communicate(text)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ChildProcessError(process.returncode)


def _post(url: str, text: bytes) -> None:
    request = urllib.request.Request(url, text, {"Content-Type": "application/json"})  # noqa: S310 -- see _is_private
    urllib.request.build_opener(_NoRedirection).open(request, timeout=WEBHOOK_S).close()
