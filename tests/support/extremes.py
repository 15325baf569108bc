"""Values at both ends of what the fields of a model admit, and beyond them."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

REALS = (0.0, 5e-324, 2.3e-308, 1e-9, 1.0, 1e9, 1e154, 1e300, 1.7e308, -1.0, -1e300, -1.7e308)
RANGES = (
    *((-end, end) for end in REALS[1:9]),
    *((0.0, end) for end in REALS[1:9]),
    *((end, math.nextafter(end, math.inf)) for end in REALS[:9]),
    *((end, 2 * end) for end in REALS[2:8]),
    (-1.7e308, 0.0),
    (1e15, 1e15 + 4),
)
"""Lower and upper ends."""

WHOLES = (0, 1, 2, 3, 1 << 31, 1 << 53, 1 << 63, 1 << 70, -1)


def extremes(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a model, each with values at both ends of what it admits, and just beyond."""
    schema = model.model_json_schema()
    for name, field in schema.get("properties", {}).items():
        found: list[Any] = []
        for value in _values(field, schema.get("$defs", {})):
            if not any(type(value) is type(other) and value == other for other in found):
                found.append(value)
                yield name, value


def _values(field: dict[str, Any], definitions: dict[str, Any]) -> Iterator[Any]:
    if "$ref" in field:
        field = definitions[field["$ref"].rsplit("/", 1)[1]]
    for options in ("anyOf", "oneOf"):
        for one in field.get(options, ()):
            yield from _values(one, definitions)
    if "const" in field:
        yield field["const"]
    yield from field.get("enum", ())
    match field.get("type"):
        case "null":
            yield None
        case "boolean":
            yield from (True, False)
        case "integer":
            for end in _ends(field):
                yield from (int(end) - 1, int(end), int(end) + 1)
            yield from WHOLES
        case "number":
            for end in _ends(field):
                yield from (end, math.nextafter(end, math.inf), math.nextafter(end, -math.inf))
            yield from REALS
        case "array":
            yield []
            items = field.get("prefixItems") or [field.get("items", {})] * max(1, field.get("minItems", 1))
            of_items = [list(itertools.islice(_values(item, definitions), 20)) for item in items]
            for at in range(max(map(len, of_items), default=0)):
                yield [values[at % len(values)] for values in of_items if values]
            if [item.get("type") for item in items] == ["number", "number"]:
                yield from map(list, RANGES)


def _ends(field: dict[str, Any]) -> list[float]:
    names = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    return [float(field[name]) for name in names if name in field]
