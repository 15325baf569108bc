"""Base of all classes whose fields somebody writes: nothing is taken for a number or a truth value but one."""

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler

_TYPES = {"int", "float", "bool"}


def _strict(schema: Any) -> Any:
    if isinstance(schema, dict):
        if schema.get("type") == "literal" and all(type(one) is int for one in schema["expected"]):
            return {"type": "chain", "steps": [{"type": "int", "strict": True}, schema]}
        strict = {"strict": True} if schema.get("type") in _TYPES else {}
        return {key: _strict(inner) for key, inner in schema.items()} | strict
    return [*map(_strict, schema)] if isinstance(schema, list) else schema


class StrictModel(BaseModel):
    """Frozen; refuses unknown fields, text and truth values for numbers, text and numbers for truth values.

    A whole number is also a float, and no float is a whole number. Lists, dates, paths and enumerations are converted
    as the library does it: TOML and JSON have no other form of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> Any:
        """Return what the library checks, with no conversion between types."""
        return _strict(handler(source))
