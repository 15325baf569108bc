"""`moiety pki request` and `sign`: certificates of keys that never leave the host on which they were made."""

import datetime
import string
from pathlib import Path
from typing import Annotated

import typer

from cli.federation.pki import (
    AUTHORITY_CERTIFICATE,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    PUBLIC_FILE,
    Output,
    PkiError,
    pki_app,
    read_authority,
    report,
    write_file,
)
from cli.terminal.output import ExitCode, Format, fail, print_result, say
from service.identity import Identity, role_named
from service.signing_request import SigningRequest, certify_request, create_request, read_request


@pki_app.command()
def request(
    federation: Annotated[str, typer.Option(help="Name of the federation.")],
    member: Annotated[str, typer.Option(help="Who you are, as ROLE/NAME, e.g. party/bank.")],
    out: Annotated[Path, typer.Option(help="Folder for the key and the request: `pki` beside your configuration.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing key and request.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Make your own key, which stays here, and a request for its certificate: NAME.key and NAME.csr.

    Send NAME.csr to whoever runs the authority, and read the fingerprint to them over another channel, say the
    telephone. What you get back is NAME.pem.
    """
    try:
        role, _, name = member.partition("/")
        identity = Identity(federation, role_named(role), name)
        key, asked = out / f"{name}.key", out / f"{name}.csr"
        existing = [str(path) for path in (key, asked) if path.exists()]
        if existing and not force:
            raise PkiError(f"{', '.join(existing)}: exists already; nothing was written. Use --force to replace")
        pair = create_request(identity)
        out.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        write_file(key, pair.key_pem, PRIVATE_FILE, replace=force)
        write_file(asked, pair.certificate_pem, PUBLIC_FILE, replace=force)
    except OSError as error:
        fail(f"cannot write {error.filename or out}: {error.strerror}", ExitCode.USAGE)
    except (PkiError, ValueError) as error:
        fail(error, ExitCode.USAGE)
    fingerprint = read_request(pair.certificate_pem).fingerprint
    lines = [f"wrote {key}, which stays here", f"wrote {asked}", f"fingerprint  {fingerprint}"]
    lines.append(f"send {asked.name} to whoever runs the authority, and read the fingerprint to them by telephone")
    print_result(output, {"written": [str(key), str(asked)], "fingerprint": fingerprint}, lines)


@pki_app.command()
def sign(
    requests: Annotated[list[Path], typer.Argument(metavar="REQUEST.csr...", help="Made by `moiety pki request`.")],
    ca: Annotated[Path, typer.Option(help="Folder of the authority, made by `moiety pki init`.")],
    out: Annotated[Path, typer.Option(help="Folder for the certificates.")],
    fingerprint: Annotated[
        list[str] | None,
        typer.Option(help="What the member read to you, instead of being asked; one for each request, in order."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=36500, help="Validity; never beyond the authority's.")] = 365,
    force: Annotated[bool, typer.Option("--force", help="Replace existing certificates.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Certify what a request says, if its fingerprint is the one that the member reads to you: NAME.pem."""
    told = fingerprint or []
    try:
        if told and len(told) != len(requests):
            raise PkiError(f"--fingerprint: {len(told)} are given for {len(requests)} requests; give one for each")
        authority = read_authority(ca)
        read = [_read(path) for path in requests]
        files = [out / f"{one.identity.name}.pem" for one in read]
        for number, (path, one) in enumerate(zip(requests, read, strict=True)):
            _compare(path, one, told[number] if told else None)
        existing = [str(path) for path in files if path.exists()]
        if existing and not force:
            raise PkiError(f"{', '.join(existing)}: exists already; nothing was written. Use --force to replace")
        if AUTHORITY_CERTIFICATE in {path.name for path in files} or len(set(files)) < len(files):
            raise PkiError("two of the requests, or a request and the authority, would be written to one file")
        now = datetime.datetime.now(datetime.UTC)
        issued = [certify_request(authority, one, days=days, now=now) for one in read]
        out.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        for path, pem in zip(files, issued, strict=True):
            write_file(path, pem, PUBLIC_FILE, replace=force)
    except OSError as error:
        fail(f"cannot write {error.filename or out}: {error.strerror}", ExitCode.USAGE)
    except (PkiError, ValueError) as error:
        fail(error, ExitCode.USAGE)
    report(
        files,
        output,
        next_step=f"send each member its certificate, and {ca / AUTHORITY_CERTIFICATE} where its folder has none",
    )


def _read(path: Path) -> SigningRequest:
    try:
        return read_request(path.read_bytes())
    except OSError as error:
        raise PkiError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PkiError(f"{path}: {error}") from error


def _compare(path: Path, asked: SigningRequest, told: str | None) -> None:
    """Refuse a request whose fingerprint is not the one that the member has read to us.

    Raises:
        PkiError: it is another one, or we are asked and do not confirm it.
    """
    if told is None:
        say(f"{path}: {asked.identity.role} {asked.identity.name} of federation {asked.identity.federation}")
        say(f"fingerprint  {asked.fingerprint}")
        if not typer.confirm("Does the member read out the same fingerprint?", err=True):
            raise PkiError(f"{path}: not confirmed; nothing was written")
    elif _digits(told) != _digits(asked.fingerprint):
        raise PkiError(
            f"{path}: its fingerprint is {asked.fingerprint}, which is not what you were told: somebody else may "
            "have made it. Nothing was written"
        )


def _digits(text: str) -> str:
    return text.translate(str.maketrans("", "", string.whitespace + "-:")).lower()
