"""Checks of what only a device has: its signing key, the roster that pins it, and its records."""

from typing import TYPE_CHECKING

from service.errors import ServiceError
from service.reach.check import Check, failed, passed
from service.settings_tree import SettingsError

if TYPE_CHECKING:
    from device.config import DeviceConfig


def check_device(config: "DeviceConfig") -> list[Check]:
    """Check the signing key, the roster, the records and the ledger of a member of masked sums."""
    return [*_pinned(config), *_records(config), _ledger(config)]


def _pinned(config: "DeviceConfig") -> list[Check]:
    from device.config import read_identity_key

    checks, public, pinned = [], None, None
    try:
        public = read_identity_key(config.identity_file).public_bytes
        checks.append(passed("signing key", f"only its owner can read {config.identity_file}"))
    except SettingsError as error:
        fix = f"Run chmod 600 {config.identity_file} if it is there, or make it with moiety device key."
        checks.append(failed("signing key", str(error), fix))
    try:
        pinned = config.member_policy().pinned
    except (SettingsError, ValueError) as error:
        checks.append(failed("roster", str(error), f"Copy the file that all members share to {config.roster}."))
    if pinned is not None and public is not None:
        if pinned.get(config.name) != public:
            found = f"{config.roster} does not list {config.name} with the key in {config.identity_file}"
            fix = f"Agree with the other members on a roster that lists {config.name} with the key {public.hex()}."
            checks.append(failed("roster", found, fix))
        else:
            checks.append(passed("roster", f"{config.roster} lists {len(pinned)} members, this one with its key"))
    return checks


def _records(config: "DeviceConfig") -> list[Check]:
    checks = []
    for record in config.records:
        name, why = f"record {record.name}", record.as_kept().why_unusable()
        if why:
            fix = f"Correct {record.path}, or the declaration of {record.name} in the configuration."
            checks.append(failed(name, f"it would count as zeros: {why}", fix))
        else:
            checks.append(passed(name, f"{record.path} matches its declaration"))
    return checks


def _ledger(config: "DeviceConfig") -> Check:
    if not (config.data_dir / "ledger.sqlite").exists():
        return passed("ledger", "there is none yet; it begins with moiety device run")
    try:
        found = config.read_ledger()
    except (ServiceError, SettingsError) as error:
        return failed("ledger", str(error), f"Put the newest copy of the ledger back into {config.data_dir}.")
    standing = found["budget"]
    remaining = "no budget was set" if standing is None else f"{standing['remaining_part']:.0%} of the budget remains"
    return passed("ledger", f"it is whole; {remaining}")
