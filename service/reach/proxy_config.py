"""Field `proxy` of a configuration: through what a member dials others."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from service.reach.hosts import Host
from service.reach.proxy import parse_proxy
from service.settings import FilePath, Settings


def _checked(url: str) -> str:
    parse_proxy(url)
    return url


class ProxyConfig(Settings):
    """Section `[proxy]`, or its `url` alone: `proxy = "http://proxy.example:3128"`.

    Attributes:
        url: `http://host:port`, or `http://user@host:port` where the proxy demands a user; characters of the user that
            a URL does not allow are written as in one (`%40`).
        password_file: file whose first line is the password of that user; only its owner may read it.
        direct: hosts of members that are dialled without the proxy: names, addresses, or networks such as 10.0.7.0/24.
            A name is compared as it is written in the member's address, and not resolved.
    """

    url: Annotated[str, AfterValidator(_checked)]
    password_file: FilePath | None = None
    direct: tuple[Host, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _url_alone(cls, given: Any) -> Any:
        return {"url": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _user_has_a_password(self) -> Self:
        has_user = bool(parse_proxy(self.url)[0])
        if has_user and self.password_file is None:
            raise ValueError("password_file: missing; `url` names a user")
        if self.password_file is not None and not has_user:
            raise ValueError("url: names no user, as in http://user@host:port, and password_file has a password")
        return self
