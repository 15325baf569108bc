"""Points in time as commands print them: in UTC, and they say so, whatever the zone of the machine is."""

import time


def printed_time(at_s: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a point in time as text for people, with its zone.

    Args:
        at_s: seconds since 1970.
        form: format for `time.strftime`.
    """
    return f"{time.strftime(form, time.gmtime(at_s))} UTC"
