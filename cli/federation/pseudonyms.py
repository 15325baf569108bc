"""`moiety pki pseudonyms`: names for the devices of one person, which whoever has no key cannot trace back."""

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.federation.pki import PRIVATE_FILE, Output, PkiError, pki_app, write_file
from cli.terminal.output import ExitCode, Format, fail, print_result, say
from service.trust.pseudonym import KEY_BYTES, name_of_device


@pki_app.command()
def pseudonyms(
    key: Annotated[Path, typer.Option(help="File of the key that the makers of the apps share.")],
    record: Annotated[str, typer.Option(help="Record that the devices keep; their names end with it.")] = "",
    new: Annotated[bool, typer.Option("--new", help="Make the key, once; give it to the other makers only.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Print the name of each person's device, PSEUDONYM-RECORD, for lines of standard input: what identifies a person.

    Who issues certificates, and a coordinator, get the names and never the key.
    """
    try:
        if new:
            write_file(key, secrets.token_bytes(KEY_BYTES), PRIVATE_FILE, replace=False)
            say(f"wrote {key}: give it to who makes the other apps, and to nobody else")
        if not record:
            if not new:
                raise PkiError("--record says which record the devices keep")
            return
        shared = key.read_bytes()
        persons = filter(None, (line.rstrip("\r\n") for line in sys.stdin))
        names = [name_of_device(shared, person, record) for person in persons]
        print_result(output, names, "\n".join(names))
    except OSError as error:
        fail(f"{error.filename or key}: {error.strerror}", ExitCode.USAGE)
    except (PkiError, ValueError) as error:
        fail(error, ExitCode.USAGE)
