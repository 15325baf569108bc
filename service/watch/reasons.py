"""Why jobs end, in a few words: a label of metrics must not take any text of others."""

import re

from service.codes.coded_text import parted

OTHER = "other"

_KINDS = (
    ("cancelled by", "cancelled"),
    ("internal error", "internal"),
    ("revoked|certificate", "certificate"),
    ("was stopped|restarted|stops", "restart"),
    ("owner refused|owner did not approve", "owner"),
    ("policy", "policy"),
    ("budget|ledger|epsilon|delta is too large", "budget"),
    ("ran longer", "overtime"),
    ("no sign of life|sent nothing|did not answer|no answer|too slow|never started|deadline", "silence"),
    ("cannot reach|nothing listens|its address|went away|gone away|broke|connection|closed|lost", "unreachable"),
    ("table", "table"),
    ("refused|does not compute with|is not a member", "refused"),
)
"""Words in a reason -> its kind. The first match counts."""

KINDS = ("", *(kind for _, kind in _KINDS), OTHER)


def kind_of(reason: str) -> str:
    """Return one of `KINDS` for the public text of why a job ended; an empty one for an empty text."""
    text = parted(reason)[0]
    if not text:
        return ""
    return next((kind for words, kind in _KINDS if re.search(words, text)), OTHER)
