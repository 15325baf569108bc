"""`moiety pki revoke`: the authority's list of certificates that nobody accepts any more."""

import datetime
from pathlib import Path
from typing import Annotated

import typer
from cryptography import x509

import cli.federation.pseudonyms
import cli.federation.requests  # noqa: F401 -- both add their commands
from cli.federation.pki import PUBLIC_FILE, REVOKED, Output, PkiError, pki_app, read_authority, write_file
from cli.terminal.output import ExitCode, Format, fail, print_result
from service.certificate_rules import check_issued_by, read_as
from service.pki import read_pair
from service.trust.revocation import RevocationList, create_list, read_list


@pki_app.command()
def revoke(
    ca: Annotated[Path, typer.Option(help="Folder of the authority, made by `moiety pki init`.")],
    certificates: Annotated[
        list[Path] | None, typer.Argument(metavar="[CERTIFICATE.pem]...", help="Certificates to revoke.")
    ] = None,
    serial: Annotated[
        list[str] | None, typer.Option(help="Instead of a file: serial number in hexadecimal. May be repeated.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Validity of the list: make a new one before.")] = 30,
    output: Output = Format.TEXT,
) -> None:
    """Write the list of revoked certificates, revoked.pem, beside the authority; without a certificate, renew it.

    Every member needs the new file where `revoked` of its `[tls]` says, and SIGHUP, on which services read it again.
    """
    path = ca / REVOKED
    now = datetime.datetime.now(datetime.UTC)
    try:
        authority = read_authority(ca)
        trusted, _ = read_pair(authority)
        serials = [_serial_in(file, trusted) for file in certificates or []]
        serials += [_parse(text) for text in serial or []]
        pem = create_list(authority, serials, days=days, now=now, before=_before(path, trusted))
        made = read_list(pem, trusted, now)
        write_file(path, pem, PUBLIC_FILE, replace=True)
    except OSError as error:
        fail(f"cannot write {error.filename or path}: {error.strerror}", ExitCode.USAGE)
    except (PkiError, ValueError) as error:
        fail(error, ExitCode.USAGE)
    value = {
        "written": [str(path)],
        "number": made.number,
        "serials": sorted(f"{one:x}" for one in made.serials),
        "not_valid_after": made.not_valid_after.isoformat(),
    }
    text = f"wrote {path}: {len(made.serials)} revoked, valid until {made.not_valid_after:%Y-%m-%d %H:%M} UTC"
    told = "send it to every member, whose [tls] names it as `revoked`; services read it again on SIGHUP"
    print_result(output, value, [text, told])


def _before(path: Path, trusted: x509.Certificate) -> RevocationList | None:
    try:
        return read_list(path.read_bytes(), trusted)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PkiError(f"{path} cannot be continued: {error}; what it revoked would be lost") from error


def _serial_in(file: Path, trusted: x509.Certificate) -> int:
    try:
        pem = file.read_bytes()
        with read_as("it is no PEM certificate"):
            certificate = x509.load_pem_x509_certificate(pem)
        check_issued_by(certificate, trusted)
    except OSError as error:
        raise PkiError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PkiError(f"{file} is not a certificate that this authority signed") from error
    if certificate == trusted:
        raise PkiError(f"{file} is the authority itself: make a new one, and new certificates for all")
    return certificate.serial_number


def _parse(text: str) -> int:
    try:
        number = int(text.replace(":", ""), 16)
    except ValueError:
        number = 0
    if number <= 0 or number.bit_length() >= 160:  # RFC 5280, 4.1.2.2
        raise PkiError(f"--serial {text!r} is not a hexadecimal serial number")
    return number
