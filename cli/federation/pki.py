"""`moiety pki init` and `issue`: a federation's authority, and keys and certificates of members that are made there.

Where each member's key shall be made on its own host: `cli.federation.requests`.
"""

import datetime
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.output import ExitCode, Format, fail, print_result
from service.identity import Role, check_name, role_named
from service.pki import KeyPair, create_authority, issue_all

AUTHORITY_CERTIFICATE = "ca.pem"
AUTHORITY_KEY = "ca.key"
REVOKED = "revoked.pem"
PRIVATE_FILE = 0o600
PUBLIC_FILE = 0o644
PRIVATE_FOLDER = 0o700

pki_app = typer.Typer(
    name="pki",
    help="Make the certificates of a federation: one authority, one certificate per member.",
    no_args_is_help=True,
)


class PkiError(Exception):
    """The command cannot do what was asked; the text says what to do instead."""

    code: str = "keys-refused"


Output = Annotated[Format, typer.Option("--format", help="How to print what was written.")]


@pki_app.command()
def init(
    federation: Annotated[str, typer.Option(help="Name of the federation: lower-case letters, digits, hyphens.")],
    out: Annotated[Path, typer.Option(help="New folder for the authority; only you may read it.")],
    days: Annotated[int, typer.Option(min=1, max=36500, help="Validity of the authority.")] = 3650,
    output: Output = Format.TEXT,
) -> None:
    """Make a certificate authority: ca.pem, which every member needs, and ca.key, which stays here."""
    try:
        written = write_authority(out, federation, days=days)
    except (PkiError, ValueError) as error:
        fail(error, ExitCode.USAGE)
    report(
        written, output, next_step=f"issue certificates with: moiety pki issue --ca {out} --member party/NAME --out DIR"
    )


@pki_app.command()
def issue(
    ca: Annotated[Path, typer.Option(help="Folder of the authority, made by `moiety pki init`.")],
    out: Annotated[Path, typer.Option(help="Folder for the certificates and keys.")],
    member: Annotated[
        list[str] | None, typer.Option(help="Whom to certify, as ROLE/NAME, e.g. party/bank. May be repeated.")
    ] = None,
    role: Annotated[str | None, typer.Option(help=f"Instead of --member: one of {', '.join(Role)}.")] = None,
    name: Annotated[str | None, typer.Option(help="Instead of --member: the member's name.")] = None,
    days: Annotated[int, typer.Option(min=1, max=36500, help="Validity; never beyond the authority's.")] = 365,
    force: Annotated[bool, typer.Option("--force", help="Replace existing certificates and keys.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Issue certificates: NAME.pem and NAME.key for each member."""
    try:
        members = _members(member or [], role, name)
        written = write_members(ca, out, members, days=days, force=force)
    except (PkiError, ValueError) as error:
        fail(error, ExitCode.USAGE)
    report(written, output, next_step=f"give each member its two files and {ca / AUTHORITY_CERTIFICATE}, nothing else")


def write_authority(folder: Path, federation: str, *, days: int) -> list[Path]:
    """Make an authority in a folder that is new, empty or already private.

    Returns:
        The files written: certificate, key.

    Raises:
        PkiError: the folder holds an authority, is open to others, or cannot be written.
        ValueError: the federation's name breaks the rule of names.
    """
    check_name("federation", federation)
    certificate, key = folder / AUTHORITY_CERTIFICATE, folder / AUTHORITY_KEY
    for path in (certificate, key):
        if path.exists():
            raise PkiError(
                f"{path} exists already. A new authority would invalidate all certificates that the old one issued: "
                "choose another folder"
            )
    try:
        make_private(folder)
        pair = create_authority(federation, days=days, now=datetime.datetime.now(datetime.UTC))
        write_file(key, pair.key_pem, PRIVATE_FILE, replace=False)
        write_file(certificate, pair.certificate_pem, PUBLIC_FILE, replace=False)
    except OSError as error:
        raise PkiError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return [certificate, key]


def write_members(
    ca: Path, folder: Path, members: Sequence[tuple[Role, str]], *, days: int, force: bool = False
) -> list[Path]:
    """Issue certificates of the authority in `ca` into `folder`: all of them or, where one exists already, none.

    Returns:
        The files written: certificate and key of each member, in order.

    Raises:
        PkiError: no authority there, files exist and `force` is not set, two members have one name, or nothing can be
            written.
        ValueError: a name breaks the rule of names, a member appears twice, the authority is expired or not readable.
    """
    authority = read_authority(ca)
    role_of: dict[str, Role] = {}
    for role, name in members:
        if role_of.setdefault(name, role) is not role:
            raise PkiError(f"two members are called {name!r}: their files would collide; use two folders")
        if f"{name}.pem" == AUTHORITY_CERTIFICATE:
            raise PkiError(f"a member cannot be called {name!r}: its files would look like the authority's")
    issued = issue_all(authority, members, days=days, now=datetime.datetime.now(datetime.UTC))
    files = {name: (folder / f"{name}.pem", folder / f"{name}.key") for _, name in members}
    if not force:
        existing = [str(path) for pair in files.values() for path in pair if path.exists()]
        if existing:
            raise PkiError(f"{', '.join(existing)}: exists already; nothing was written. Use --force to replace")
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        for (_, name), pair in issued.items():
            certificate, key = files[name]
            write_file(key, pair.key_pem, PRIVATE_FILE, replace=force)
            write_file(certificate, pair.certificate_pem, PUBLIC_FILE, replace=force)
    except OSError as error:
        raise PkiError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return [path for pair in files.values() for path in pair]


def read_authority(ca: Path) -> KeyPair:
    """Read the authority of a folder.

    Raises:
        PkiError: there is none, or its files cannot be read.
    """
    certificate, key = ca / AUTHORITY_CERTIFICATE, ca / AUTHORITY_KEY
    for path in (certificate, key):
        if not path.exists():
            raise PkiError(
                f"there is no authority in {ca} ({path.name} is missing); "
                f"make one with: moiety pki init --federation NAME --out {ca}"
            )
    try:
        return KeyPair(certificate.read_bytes(), key.read_bytes())
    except OSError as error:
        raise PkiError(f"cannot read {error.filename}: {error.strerror}") from error


def _members(texts: Sequence[str], role: str | None, name: str | None) -> list[tuple[Role, str]]:
    if (role is None) != (name is None):
        raise PkiError("--role and --name go together: --role party --name bank")
    pairs = [text.split("/") for text in texts]
    for text, pair in zip(texts, pairs, strict=True):
        if len(pair) != 2:
            raise PkiError(f"--member {text!r} is not ROLE/NAME, for instance party/bank")
    if role is not None and name is not None:
        pairs.append([role, name])
    if not pairs:
        raise PkiError("name the member to certify: --member party/bank, or --role party --name bank")
    return [(role_named(role), name) for role, name in pairs]


def make_private(folder: Path) -> None:
    """Make the folder, or take an existing one, so that nobody else can look into it."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if not stat.S_IMODE(folder.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        return
    if any(folder.iterdir()):
        raise PkiError(f"{folder} is open to other users and holds other files; choose a new folder for the authority")
    folder.chmod(PRIVATE_FOLDER)


def write_file(path: Path, content: bytes, mode: int, *, replace: bool) -> None:
    """Write a file that has its mode from the first byte; follow no link, replace nothing unless asked to."""
    target = path.with_name(f".{path.name}.{secrets.token_hex(8)}") if replace else path
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            target.replace(path)
    except OSError:
        target.unlink(missing_ok=True)
        raise


def report(written: Sequence[Path], output: Format, *, next_step: str) -> None:
    """Print which files were written, and what to do with them."""
    lines = [*(f"wrote {path}" for path in written), next_step]
    print_result(output, {"written": [str(path) for path in written]}, lines)
