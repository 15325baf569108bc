"""Names under which the devices of one person are known as those of one person, to whom nobody can tell who that is."""

import base64
import hashlib
import hmac

from service.identity import check_name

KEY_BYTES = 32
"""Least length of the key that the makers of a person's apps share."""

_LABEL = b"moiety pseudonym of a person:"
_BYTES = 16


def name_of_device(key: bytes, person: str, record: str) -> str:
    """Return the name of the device that keeps a record of a person: PSEUDONYM-RECORD, for its certificate.

    The pseudonym is the beginning of HMAC-SHA256 of what identifies the person, such as a number of a telephone, under
    a key: 26 letters and digits. All who have the key come to the same one. Who has not cannot try what might identify
    somebody, as with a hash without a key: there are but 10^10 numbers of telephones. So neither a coordinator nor who
    issues certificates may have it.

    Args:
        key: `KEY_BYTES` random bytes or more.
        person: what identifies the person at all apps alike, exactly as spelt.
        record: the record that the device keeps.

    Raises:
        ValueError: the key is too short, or the name breaks the rule of names; neither it nor the person is shown.
    """
    if len(key) < KEY_BYTES:
        raise ValueError(f"the key of pseudonyms has {len(key)} bytes; {KEY_BYTES} random ones at least are needed")
    digest = hmac.digest(key, _LABEL + person.encode(), hashlib.sha256)
    pseudonym = base64.b32encode(digest[:_BYTES]).decode().rstrip("=").lower()
    check_name("record", record)
    check_name("device", f"{pseudonym}-{record}")
    return f"{pseudonym}-{record}"
