"""The order of rows in jobs on generated tables, which have no ids: it is that in which they were made."""

from collections.abc import Iterable
from typing import Any

from analyses.job.schema import BlockSchema


def trusted_order(schemas: Iterable[BlockSchema]) -> dict[str, Any]:
    """Return the field `order` of a job that joins tables; nothing where there is one table or tables have ids."""
    owners = [schema for schema in schemas if schema.columns]
    return {"order": "trusted"} if len(owners) > 1 and not any(schema.has_ids for schema in owners) else {}
