"""Checks of the configuration file, of the folder in which a member keeps its data, and of the room on its disk."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

from cli.doctor.member import Member
from service.identity import Role
from service.reach.check import Check, failed, passed, warning

MIN_FREE_BYTES = 50 << 20
"""With less room, the next transaction of a ledger or of a store of jobs may fail."""

FEW_FREE_BYTES = 1 << 30
"""With less room, there is a warning."""

_ADDRESS_OF = {Role.PARTY: "MOIETY_PARTY__LEDGER__URL", Role.COORDINATOR: "MOIETY_COORDINATOR__STORE"}
"""Where the address of a database is given instead of in the file."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_files(member: Member) -> list[Check]:
    """Check the rights of the configuration, the data folder and its disk."""
    checks = [_configuration(member)]
    if member.folder is not None:
        checks.append(_folder(member.folder, is_made=member.role is not Role.COORDINATOR))
        if (there := _nearest(member.folder)).is_dir():
            checks.append(check_space(there))
    return checks


def check_space(folder: Path) -> Check:
    """Check the free room on the disk of a folder, which must exist."""
    free = shutil.disk_usage(folder).free
    found = f"{free / (1 << 30):.1f} GiB are free on the disk of {folder}"
    fix = f"Free some room on the disk of {folder}."
    if free < MIN_FREE_BYTES:
        return failed("disk space", f"{found}: the next entry may not fit", fix)
    return warning("disk space", found, fix) if free < FEW_FREE_BYTES else passed("disk space", found)


def _configuration(member: Member) -> Check:
    path = member.path
    mode = stat.S_IMODE(path.stat().st_mode)
    if member.has_password and mode & _OTHERS:
        return warning(
            "configuration",
            f"{path} has the address of a database, which may hold a password, and other users can read it "
            f"(mode {mode:04o})",
            f"Run chmod 600 {path}, or give the address by the environment ({_ADDRESS_OF[member.role]}).",
        )
    who = member.role if member.name is None else f"{member.role} {member.name}"
    return passed("configuration", f"{path}: {who} of federation {member.federation}")


def _folder(folder: Path, *, is_made: bool) -> Check:
    name = "data folder"
    if not folder.exists():
        there = _nearest(folder)
        if not there.is_dir():
            return failed(name, f"{folder} cannot be made: {there} is a file", f"Remove or rename {there}.")
        if not is_made:
            return failed(name, f"{folder} does not exist", f"Make the folder {folder} for this user, with mode 0700.")
        if not os.access(there, os.W_OK | os.X_OK):
            return failed(
                name, f"{folder} cannot be made: this user must not write to {there}", f"Make {folder} for this user."
            )
        return passed(name, f"{folder} does not exist yet; the service makes it")
    if not folder.is_dir():
        return failed(name, f"{folder} is a file, not a folder", f"Remove or rename {folder}.")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return failed(
            name,
            f"{folder} cannot be written: {error.strerror}",
            f"Give {folder} to the user of the service, and look whether its disk is read-only or full.",
        )
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & _OTHERS:
        return warning(name, f"{folder} is open to other users (mode {mode:04o})", f"Run chmod 700 {folder}.")
    return passed(name, f"{folder} can be written, and only by this user")


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    return next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))
