"""Configuration files as trees: TOML, overridden by the environment and by flags. Only the standard library is needed.

A field `f` of a file read with the prefix `MOIETY_PARTY` is overridden by `MOIETY_PARTY__F`, a field of its section
`tls` by `MOIETY_PARTY__TLS__F`. A value in `[...]` or `{...}` is read as TOML, every other as text. Lists of sections
(`[[parties]]`) are replaced as a whole.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.files.text_file import TextFileError, read_text


class SettingsError(ValueError):
    """A configuration that cannot be used; the text names the file and each wrong field, one per line."""

    code: str = "configuration-invalid"


def read_tree(
    path: Path,
    *,
    prefix: str,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> tuple[dict[str, Any], set[tuple[str, ...]]]:
    """Read one configuration file; nothing is checked but its form.

    Args:
        path: the TOML file.
        prefix: prefix of the environment variables that override it, for instance `MOIETY_PARTY`.
        environ: the environment; the process's own where absent.
        flags: fields given on the command line, which override both, for instance `{"tls.key": "key.pem"}`; None means
            not given.

    Returns:
        The tree, and the fields that the environment gave.

    Raises:
        SettingsError: no such file, or not TOML.
    """
    try:
        tree = _tree_of_toml(read_text(path), str(path))
    except TextFileError as error:
        raise SettingsError(str(error)) from None
    from_environment: set[tuple[str, ...]] = set()
    for variable, text in (os.environ if environ is None else environ).items():
        if variable.startswith(prefix + "__"):
            keys = variable.removeprefix(prefix + "__").lower().split("__")
            override(tree, keys, _value(variable, text), variable)
            from_environment.add(tuple(keys))
    for field, value in (flags or {}).items():
        if value is not None:
            override(tree, field.split("."), value, field)
    return tree, from_environment


def override(tree: dict[str, Any], keys: list[str], value: object, source: str) -> None:
    """Set a field of a tree, named by its sections and itself.

    Raises:
        SettingsError: what should be a section is something else; the text names the source.
    """
    *sections, field = keys
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise SettingsError(f"{source}: {section!r} is not a section")
    tree[field] = value


def _value(variable: str, text: str) -> object:
    if (text[:1], text[-1:]) not in {("[", "]"), ("{", "}")}:
        return text
    return _tree_of_toml(f"value = {text}", f"environment variable {variable}")["value"]


def _tree_of_toml(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        from mpc.field_faults import toml_fault  # a probe of a service loads nothing beside itself

        raise SettingsError(f"{source}: not valid TOML: {toml_fault(error)}") from None
