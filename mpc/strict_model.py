"""Base of all classes whose fields somebody writes: nothing is taken for a number or a truth value but one."""

from typing import Any, Self

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

    An object is its fields. What it has derived from them (`cached_property`) is neither compared, as it may refer back
    to the object or be an array, nor copied, as `model_copy` may change what it was derived from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> Any:
        """Return what the library checks, with no conversion between types."""
        return _strict(handler(source))

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal."""
        if not isinstance(other, StrictModel):
            return NotImplemented
        return type(self) is type(other) and self._fields() == other._fields()

    def __copy__(self) -> Self:
        """Return a copy without what was derived from the fields."""
        copied = super().__copy__()
        for derived in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[derived]
        return copied

    def _fields(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in type(self).model_fields}
