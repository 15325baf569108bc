"""Tables of the fields of pydantic models: name, type, default, and the words of the docstring's `Attributes:`."""

import inspect
import re
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    Path: "path",
    SecretStr: "text",
    Any: "any",
}


def fields_of(model: type[BaseModel]) -> list[str]:
    """Return the lines of a table of the model's own fields."""
    if not model.model_fields:
        return []
    told = described_attributes(model)
    lines = ["| field | what it says | values | where absent |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        cells = (f"`{field.alias or name}`", told.get(name, ""), _values(field), _absent(field))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*lines, ""]


def section_of(model: type[BaseModel], heading: str, path: str = "") -> list[str]:
    """Return the lines of a section about a model: heading, first paragraph of its docstring, fields."""
    about = " ".join(inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].split())
    title = f"Section `{path}`" if path else model.__name__
    return [f"{heading} {title} {{: #{anchor_of(model)} }}", "", about, "", *fields_of(model)]


def models_in(model: type[BaseModel]) -> list[tuple[str, type[BaseModel]]]:
    """Return the models that the fields of a model are made of, each with the field where it is first used."""
    found: dict[type[BaseModel], str] = {}
    _collect(model, "", found)
    found.pop(model, None)
    return [(path, inner) for inner, path in found.items()]


def described_attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return what the docstrings of a model and of its bases say about each attribute."""
    told: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        part = re.search(
            r"Attributes:\n(.*?)(?:\n\n|\n[A-Z]\w*:\n|\Z)", inspect.cleandoc(owner.__doc__ or ""), re.DOTALL
        )
        names: list[str] = []
        for line in part[1].splitlines() if part else ():
            if entry := re.match(r"    ([A-Za-z_][\w, ]*): (.*)", line):
                names = entry[1].split(", ")
                told |= dict.fromkeys(names, entry[2])
            else:
                told |= {name: f"{told[name]} {line.strip()}" for name in names}
    return told


def _collect(annotation: Any, path: str, found: dict[type[BaseModel], str]) -> None:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        if annotation in found:
            return
        found[annotation] = path
        for name, field in annotation.model_fields.items():
            _collect(field.annotation, f"{path}.{field.alias or name}".lstrip("."), found)
    for inner in get_args(annotation):
        _collect(inner, path, found)


def _values(field: FieldInfo) -> str:
    limits = [_limit(one) for one in field.metadata]
    return ", ".join(dict.fromkeys([_kind(field.annotation), *filter(None, limits)]))


def _kind(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = [_limit(one) for limit in inner[1:] for one in getattr(limit, "metadata", [limit])]
        return ", ".join([_kind(inner[0]), *filter(None, limits)])
    if origin is Literal:
        return " or ".join(f'`"{one}"`' if isinstance(one, str) else f"`{one}`" for one in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_kind(one) for one in inner if one is not NoneType))
    if origin in (tuple, list, frozenset, set):
        items = [one for one in inner if one is not Ellipsis]
        return (
            f"[{', '.join(map(_kind, items))}]"
            if origin is tuple and Ellipsis not in inner
            else f"list of {_kind(items[0])}"
        )
    if origin is dict or (inspect.isclass(origin) and issubclass(origin, dict)) or len(inner) == 2:
        return f"table of name to {_kind(inner[-1])}"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return f"[section](#{anchor_of(annotation)})"
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return " or ".join(f'`"{one.value}"`' for one in annotation)
    return PLAIN.get(annotation, "text" if annotation is NoneType else str(getattr(annotation, "__name__", annotation)))


def anchor_of(model: type[BaseModel]) -> str:
    """Return the anchor of a model's heading; models of two files may have one name."""
    return f"{model.__module__}.{model.__name__}".lower().replace(".", "-")


def _limit(limit: Any) -> str:
    words = {
        annotated_types.Ge: ("at least", "ge"),
        annotated_types.Gt: ("above", "gt"),
        annotated_types.Le: ("at most", "le"),
        annotated_types.Lt: ("below", "lt"),
        annotated_types.MinLen: ("length at least", "min_length"),
        annotated_types.MaxLen: ("length at most", "max_length"),
    }
    for kind, (word, attribute) in words.items():
        if isinstance(limit, kind):
            bound = getattr(limit, attribute)
            large = isinstance(bound, int) and bound > 2**40 and bound.bit_count() == 1
            return f"{word} {f'2^{bound.bit_length() - 1}' if large else f'{bound:,}'}"
    return ""


def _absent(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None or default is PydanticUndefined or default in ((), {}, [], ""):
        return ""
    if isinstance(default, BaseModel):
        return "its own defaults"
    if isinstance(default, frozenset | tuple):
        default = sorted(default) if isinstance(default, frozenset) else list(default)
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{getattr(default, 'value', default)}`"
