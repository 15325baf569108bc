"""Why a local entry to ways by relays had none for its last connection, kept by the name of the entry.

The gRPC library dials the entry, and its description of a call that failed quotes the name and no more.
"""

import re

_NAME = re.compile(r"moiety-[0-9a-f]{32}")
_FAULTS: dict[str, str] = {}


def note_fault(name: str, text: str) -> None:
    """Note why an entry had no way, as a text with its code; empty where it had one or is closed."""
    if text:
        _FAULTS[name] = text
    else:
        _FAULTS.pop(name, None)


def fault_at_entry(details: str) -> str:
    """Return why the entry that a description quotes had no way, with a code; empty where there is no such entry."""
    found = _NAME.search(details)
    return "" if found is None else _FAULTS.get(found[0], "")
