"""Configuration files: read by `service.settings_tree`, checked field by field here.

Where a field takes nothing but a number, a text of the environment is read as one.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, ValidationError, ValidationInfo

from service.settings_tree import SettingsError as SettingsError
from service.settings_tree import override, read_tree

M = TypeVar("M", bound=BaseModel)

PLAIN_WORDS = {"missing": "missing", "extra_forbidden": "there is no such field"}
"""Texts for the most frequent mistakes, by pydantic's error type."""

UNTOLD = {"extra_forbidden", "model_type", "dict_type", "tuple_type"}
"""Error types for misplaced input, which is not quoted because it may be a secret that belongs elsewhere."""

_PASSWORDS = re.compile(r"(?<=://).*(?=@)|(?<=password=)[^&\s'\"]+", re.IGNORECASE)


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder")
    return path if folder is None else Path(folder) / path


FilePath = Annotated[Path, AfterValidator(_beside_the_file)]
"""A path in a configuration file; a relative one starts at that file's folder, also when the environment gives it."""

_HOST = r"(?:[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])"
MAX_PORT = 65535


def _check_address(address: str) -> str:
    if not re.fullmatch(rf"{_HOST}:[0-9]{{1,5}}", address):
        if re.fullmatch(_HOST, address):
            raise ValueError("an address is host:port, and the port is missing, as in 127.0.0.1:7101")
        if "://" in address:
            raise ValueError("an address is host:port, as in 127.0.0.1:7101, without a scheme before it")
        raise ValueError("an address is host:port, as in 127.0.0.1:7101; an IPv6 host stands in brackets")
    if int(address.rpartition(":")[2]) > MAX_PORT:
        raise ValueError(f"a port must not be larger than {MAX_PORT}")  # gRPC would reduce the port modulo 2^16
    return address


Address = Annotated[str, AfterValidator(_check_address)]
"""`host:port`; an IPv6 host stands in brackets. Where one listens, port 0 lets the system choose."""


def _check_each(given: object) -> tuple[str, ...]:
    addresses = (given,) if isinstance(given, str) else given
    if not isinstance(addresses, list | tuple) or not addresses or not all(isinstance(one, str) for one in addresses):
        raise ValueError('an address is text, as in "10.0.0.4:7100", or a list of such texts with one at least')
    if repeated := [one for one in addresses if addresses.count(one) > 1]:
        raise ValueError(f"{repeated[0]} stands twice in the list of addresses")
    return tuple(map(_check_address, addresses))


Addresses = Annotated[tuple[str, ...], PlainValidator(_check_each)]
"""One `Address`, or a list of those of several coordinators of one identity, of which one leads at a time."""


def check_addresses(addresses: Mapping[str, str | tuple[str, ...]]) -> None:
    """Refuse two services at one address. Port 0, which the system replaces, is nobody's.

    Args:
        addresses: name to its address, or to several of its own.

    Raises:
        ValueError: names both.
    """
    found: dict[str, str] = {}
    for name, given in addresses.items():
        for address in (given,) if isinstance(given, str) else given:
            if not address.endswith(":0") and found.setdefault(address, name) != name:
                raise ValueError(f"{found[address]!r} and {name!r} have the same address {address}; each has its own")


class Settings(BaseModel):
    """Base of configuration models: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TlsFiles(Settings):
    """The PEM files by which this process proves who it is and checks everybody else; see `service.tls`.

    Attributes:
        authority: the certificate of the federation's authority: only what it signed is trusted.
        certificate: of this process; its URI says who it is.
        key: the private key of that certificate.
        revoked: the authority's list of revoked certificates, which `moiety pki revoke` makes; without one nobody who
            shows a certificate of the authority is refused for its sake.
    """

    authority: FilePath
    certificate: FilePath
    key: FilePath
    revoked: FilePath | None = None


def load_settings(
    model: type[M],
    path: Path,
    *,
    prefix: str,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> M:
    """Read one configuration file.

    Args:
        model: what it must look like.
        path: the TOML file.
        prefix: of the environment variables that override it, for instance `MOIETY_PARTY`.
        environ: the environment; the process's own where absent.
        flags: fields given on the command line, which override both, for instance `{"tls.key": "key.pem"}`; None means
            not given.

    Raises:
        SettingsError: no such file, not TOML, or a field is missing, unknown or out of range.
    """
    tree, from_environment = read_tree(path, prefix=prefix, environ=environ, flags=flags)
    try:
        return _validate(model, tree, path, from_environment)
    except ValidationError as error:
        raise SettingsError("\n".join(f"{path}: {line}" for line in explain_fields(error))) from error


def _validate(model: type[M], tree: dict[str, Any], path: Path, from_environment: set[tuple[str, ...]]) -> M:
    """Check a tree; where a strict number is asked for, text of the environment, which has nothing else, may be one."""
    context = {"folder": path.parent}
    try:
        return model.model_validate(tree, context=context)
    except ValidationError as error:
        numbers = [problem for problem in error.errors(include_url=False) if problem["type"] == "float_type"]
        given = [problem for problem in numbers if problem["loc"] in from_environment]
        if not given:
            raise
        for problem in given:
            try:
                override(tree, [str(part) for part in problem["loc"]], float(problem["input"]), "")
            except ValueError:
                raise error from None
        return model.model_validate(tree, context=context)


def explain_fields(error: ValidationError) -> list[str]:
    """Say in one line per problem which field is wrong and why. The lines end in logs: no password is in them."""
    lines = []
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"])
        given = problem["input"]
        told = isinstance(given, str | int | float) and problem["type"] not in UNTOLD
        message = PLAIN_WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        text = _PASSWORDS.sub("***", f"{message}, got {given!r}" if told else message)
        lines.append(f"{where}: {text}" if where else text)
    return lines
