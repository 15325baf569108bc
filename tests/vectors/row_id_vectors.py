"""The vectors of what identifies rows, for `generate.py`: steps of normalisation, and digests of ids."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from analyses.job.matching import Recipe
from analyses.job.row_ids import digests_of_ids
from party.tables.normalise import ISO_DATE, normalised

Vector = dict[str, Any]

SPELLINGS: tuple[tuple[Recipe, str, tuple[str, ...]], ...] = (
    (("trim",), ISO_DATE, ("  Ada  Lovelace\t", "Ada\u00a0Lovelace", "   ", "ada")),
    (("nfkc",), ISO_DATE, ("Zoe\u0308", "Zo\u00eb", "\ufb01n", "\uff11\uff12", "x\u00b2")),
    (("lower",), ISO_DATE, ("STRASSE", "Stra\u00dfe", "\u0394\u03a3", "\u0130")),
    (("digits",), ISO_DATE, ("+49 (30) 12-34", "007", "\u0661\u0662", "none", "x\u00b2")),
    (("letters",), ISO_DATE, ("O'Neill-Smith 3rd", "Zo\u00eb", "\u6771 \u4eac", "42")),
    (("integer",), ISO_DATE, ("007", "+7", "-0", "7.0", " 7", "1" * 40)),
    (("trim", "date"), "%d.%m.%Y", (" 31.12.1999", "1.1.2000", "1999-12-31", "30.02.2000")),
    (("nfkc", "letters", "lower"), ISO_DATE, ("Zoe\u0308 STRASSER", "zo\u00eb strasser", "...")),
    ((), ISO_DATE, (" Ada ", "")),
)
IDS = (("ada",), ("ada", "1815-12-10"), ("ad", "a1815-12-10"), ("", "ada"), ("zo\u00eb",))


def row_id_vectors() -> Iterable[Vector]:
    """All vectors of the file."""
    for steps, date_format, texts in SPELLINGS:
        yield {
            "name": "normalise_" + ("_".join(steps) or "not_at_all"),
            "steps": list(steps),
            "date_format": date_format,
            "texts": list(texts),
            "normalised": normalised(pl.Series("id", texts), steps, date_format).to_list(),
        }
    for number, fields in enumerate(IDS):
        digest = digests_of_ids([[one] for one in fields])[0].tobytes().hex()
        yield {"name": f"digest_{number}", "fields": list(fields), "digest": digest}
