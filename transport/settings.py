"""Configuration files: TOML, overridden by the environment, checked field by field.

A field `f` of a model read with the prefix `MOIETY_PARTY` is overridden by `MOIETY_PARTY__F`, a field of its section
`tls` by `MOIETY_PARTY__TLS__F`. A value in `[...]` or `{...}` is read as TOML, every other as text, or as a number
where the field takes nothing else. Lists of sections (`[[parties]]`) are replaced as a whole.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

M = TypeVar("M", bound=BaseModel)

PLAIN_WORDS = {"missing": "missing", "extra_forbidden": "there is no such field"}
"""For what people get wrong most often; by type of pydantic's error."""

UNTOLD = {"extra_forbidden", "model_type", "dict_type", "tuple_type"}
"""Types of errors about something in the wrong place, which may be a secret that belongs elsewhere."""

_PASSWORDS = re.compile(r"(?<=://).*(?=@)|(?<=password=)[^&\s'\"]+", re.IGNORECASE)


class SettingsError(ValueError):
    """A configuration that cannot be used; the text names the file and each wrong field, one per line."""


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder")
    return path if folder is None else Path(folder) / path


FilePath = Annotated[Path, AfterValidator(_beside_the_file)]
"""A path in a configuration file; a relative one starts at that file's folder, also when the environment gives it."""

_HOST = r"(?:[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])"
LARGEST_PORT = 65535


def _port_exists(address: str) -> str:
    if int(address.rpartition(":")[2]) > LARGEST_PORT:
        raise ValueError(f"ports end at {LARGEST_PORT}")  # gRPC would take the rest of a division by 2^16
    return address


Address = Annotated[str, Field(pattern=rf"^{_HOST}:[0-9]{{1,5}}$"), AfterValidator(_port_exists)]
"""`host:port`; an IPv6 host stands in brackets. Where one listens, port 0 lets the system choose."""


class Settings(BaseModel):
    """Base of configuration models: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TlsFiles(Settings):
    """The PEM files by which this process proves who it is and checks everybody else; see `transport.tls`.

    Attributes:
        authority: the certificate of the federation's authority: only what it signed is trusted.
        certificate: of this process; its URI says who it is.
        key: the private key of that certificate.
    """

    authority: FilePath
    certificate: FilePath
    key: FilePath


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
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SettingsError(f"{path}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SettingsError(f"{path}: cannot be read: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    from_environment: set[tuple[str, ...]] = set()
    for variable, text in (os.environ if environ is None else environ).items():
        if variable.startswith(prefix + "__"):
            keys = variable.removeprefix(prefix + "__").lower().split("__")
            _override(tree, keys, _value(variable, text), variable)
            from_environment.add(tuple(keys))
    for field, value in (flags or {}).items():
        if value is not None:
            _override(tree, field.split("."), value, field)
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
                _override(tree, [str(part) for part in problem["loc"]], float(problem["input"]), "")
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


def _override(tree: dict[str, Any], keys: list[str], value: object, source: str) -> None:
    *sections, field = keys
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise SettingsError(f"{source}: {section!r} is not a section")
    tree[field] = value


def _value(variable: str, text: str) -> object:
    if (text[:1], text[-1:]) not in {("[", "]"), ("{", "}")}:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"environment variable {variable}: not valid TOML: {error}") from error
