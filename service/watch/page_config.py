"""Section `[page]` of a service's configuration."""

import ipaddress
from typing import Self

from pydantic import model_validator

from service.settings import Address, FilePath, Settings


class PageConfig(Settings):
    """Section `[page]`: a page to look at, and metrics, over HTTP. Without the section a service has none.

    Attributes:
        listen: address to serve on. Any other than a loopback address needs `token_file`.
        token_file: file with the token by which one logs in, at least 16 characters; only its owner may read it.
            Without one everybody on this machine may look, and nobody can approve jobs.
        metrics_token_file: file with the bearer token of `/metrics`. Without one metrics are for this machine only.
        certificate: a PEM certificate for browsers, so that the page is served by HTTPS; members' certificates name no
            host.
        key: its private key.
    """

    listen: Address = "127.0.0.1:7180"
    token_file: FilePath | None = None
    metrics_token_file: FilePath | None = None
    certificate: FilePath | None = None
    key: FilePath | None = None

    @model_validator(mode="after")
    def _is_not_open_to_all(self) -> Self:
        if not self.is_on_loopback and self.token_file is None:
            raise ValueError("token_file: missing; a page that others than this machine can reach needs a token")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate, key: give both or neither")
        return self

    @property
    def is_on_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return is_loopback(self.listen.rpartition(":")[0].strip("[]"))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by a name or address that no other machine has."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
