"""Configuration files: read by `service.settings_tree`, checked field by field here.

Where a field takes a number or a truth value, a text of the environment is read as one.
"""

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, PlainValidator, TypeAdapter, ValidationError, ValidationInfo

from mpc.field_faults import fault_in_words, fields_beside, place_in_words
from mpc.strict_model import StrictModel
from service.settings_tree import SettingsError as SettingsError
from service.settings_tree import override, read_tree

M = TypeVar("M", bound=BaseModel)

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


MAX_LABEL, MAX_NAME = 63, 253
"""Largest number of characters between two dots of a host name, and of the whole name [RFC 1035, 2.3.4]."""


def host_fault(host: str) -> str:
    """Return what is wrong with a host that others shall dial; empty where it is a name or a number of a host."""
    if not host:
        return "the host is missing"
    if "://" in host:
        return "it has a scheme; write the host alone"
    if (host.startswith("[") and host.endswith("]")) or ":" in host:
        with suppress(ValueError):
            ipaddress.IPv6Address(host.removeprefix("[").removesuffix("]"))
            return "" if host.startswith("[") else "an IPv6 host stands in brackets"
        return f"{host!r} is no IPv6 address"
    if wrong := re.search(r"[^A-Za-z0-9.-]", host):
        return f"a host name has letters of ASCII, digits, hyphens and dots, and no {wrong[0]!r}"
    if re.fullmatch(r"[0-9.]+", host):
        with suppress(ValueError):
            ipaddress.IPv4Address(host)
            return ""
        return f"{host!r} is no IPv4 address"
    if not all(re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?", label) for label in host.split(".")):
        return "between dots of a host name are letters and digits, with hyphens inside only"
    if len(host) > MAX_NAME or max(map(len, host.split("."))) > MAX_LABEL:
        return f"a host name has at most {MAX_NAME} characters, and at most {MAX_LABEL} between two dots"
    return ""


def check_address(address: str) -> str:
    """Return an address that is host:port.

    Raises:
        ValueError: it is not; says why.
    """
    if not re.fullmatch(rf"{_HOST}:[0-9]{{1,5}}", address):
        if re.fullmatch(_HOST, address):
            raise ValueError("an address is host:port, and the port is missing, as in 127.0.0.1:7101")
        if "://" in address:
            raise ValueError("an address is host:port, as in 127.0.0.1:7101, without a scheme before it")
        fault = host_fault(address.rpartition(":")[0]) or "the port is a number"
        raise ValueError(f"an address is host:port, as in 127.0.0.1:7101; {fault}")
    if int(address.rpartition(":")[2]) > MAX_PORT:
        raise ValueError(f"a port must not be larger than {MAX_PORT}")  # gRPC would reduce the port modulo 2^16
    return address


Address = Annotated[str, AfterValidator(check_address)]
"""`host:port`; an IPv6 host stands in brackets. Where one listens, port 0 lets the system choose."""


def _check_each(given: object) -> tuple[str, ...]:
    addresses = (given,) if isinstance(given, str) else given
    if not isinstance(addresses, list | tuple) or not addresses or not all(isinstance(one, str) for one in addresses):
        raise ValueError('an address is text, as in "10.0.0.4:7100", or a list of such texts with one at least')
    if repeated := [one for one in addresses if addresses.count(one) > 1]:
        raise ValueError(f"{repeated[0]} appears twice in the list of addresses")
    return tuple(map(check_address, addresses))


Addresses = Annotated[tuple[str, ...], PlainValidator(_check_each)]
"""One `Address`, or a list of those of several coordinators of one identity, of which one leads at a time."""


def check_addresses(addresses: Mapping[str, str | tuple[str, ...]]) -> None:
    """Refuse two services at one address. Port 0, which the system replaces, is nobody's.

    Args:
        addresses: name to its address, or to several of its own.

    Raises:
        ValueError: names both.
    """
    found: dict[tuple[str, int], str] = {}
    for name, given in addresses.items():
        for address in (given,) if isinstance(given, str) else given:
            place = _place_of(address)
            if place[1] and found.setdefault(place, name) != name:
                raise ValueError(f"{found[place]!r} and {name!r} have the same address {address}; each has its own")


def _place_of(address: str) -> tuple[str, int]:
    """Return host and port of an address, the same for all spellings of it."""
    host, _, port = address.rpartition(":")
    with suppress(ValueError):
        host = str(ipaddress.ip_address(host.strip("[]")))
    return host.lower(), int(port)


class Settings(StrictModel):
    """Base of configuration models."""


class TlsFiles(Settings):
    """The PEM files by which this process proves who it is and checks everybody else; see `service.tls`.

    Attributes:
        authority: the certificate of the federation's authority: only what it signed is trusted.
        certificate: certificate of this process; its URI says who it is.
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
        prefix: prefix of the environment variables that override it, for instance `MOIETY_PARTY`.
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
        raise SettingsError("\n".join(f"{path}: {line}" for line in explain_fields(error, model))) from None


_WRITTEN: dict[str, TypeAdapter[Any]] = {
    "int_type": TypeAdapter(int),
    "float_type": TypeAdapter(float),
    "bool_type": TypeAdapter(bool),
}
"""What the environment, which has nothing but text, may give in the place of a number or a truth value."""


def _validate(model: type[M], tree: dict[str, Any], path: Path, from_environment: set[tuple[str, ...]]) -> M:
    """Check a tree; the environment may give a number or a truth value as text."""
    context = {"folder": path.parent}
    try:
        return model.model_validate(tree, context=context)
    except ValidationError as error:
        given = [problem for problem in error.errors(include_url=False) if problem["loc"] in from_environment]
        texts = [problem for problem in given if problem["type"] in _WRITTEN]
        if not texts:
            raise
        for problem in texts:
            try:
                value = _WRITTEN[problem["type"]].validate_python(problem["input"])
            except ValidationError:
                raise error from None
            override(tree, [str(part) for part in problem["loc"]], value, "")
        return model.model_validate(tree, context=context)


def explain_fields(error: ValidationError, model: type[BaseModel] | None = None) -> list[str]:
    """Say in one line per problem which field is wrong and why. The lines end in logs: no password is in them.

    Args:
        error: error of the library.
        model: model of the configuration; None where it is not known.
    """
    lines = []
    for problem in error.errors(include_url=False):
        where = place_in_words(problem["loc"])
        given = problem["input"]
        told = isinstance(given, str | int | float) and problem["type"] not in UNTOLD
        message = fault_in_words(problem, () if model is None else fields_beside(model, problem["loc"]))
        text = _PASSWORDS.sub("***", f"{message}, got {given!r}" if told else message)
        lines.append(f"{where}: {text}" if where else text)
    return lines
