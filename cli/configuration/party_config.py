"""What commands for the owner of a party share: its configuration, and its ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal.output import ExitCode, fail

if TYPE_CHECKING:
    from ledger.balance import Balance
    from ledger.ledger import Ledger
    from party.config import PartyConfig

Config = Annotated[
    Path, typer.Option("--config", envvar="MOIETY_PARTY_CONFIG", help="The party's configuration, party.toml.")
]


def read_config(path: Path) -> "PartyConfig":
    """Read the configuration like the service does.

    Raises:
        SettingsError: it cannot be used.
    """
    from party.config import load_party_config

    return load_party_config(path)


@contextmanager
def opened_ledger(config: "PartyConfig", *, may_be_new: bool = False, adopt: str | None = None) -> Iterator["Ledger"]:
    """Open the ledger beside the service that may be using it.

    Raises:
        SettingsError: its folder cannot be made.
        LedgerError: it cannot be used, or was tampered with.
    """
    from ledger.ledger import open_ledger
    from service.files.installation import Installation

    url = None if config.ledger.url is None else config.ledger.url.get_secret_value()
    if may_be_new:
        Installation.make_folder(config.data_dir)
    elif url is None and not config.ledger_path.exists() and not config.counter_path.exists():
        fail(
            f"{config.name} has no ledger yet: restore it if it was lost; moiety budget init begins a new party's",
            ExitCode.NOT_FOUND,
            code="ledger-missing",
        )
    ledger = open_ledger(
        config.name, path=config.ledger_path, url=url, counter=config.counter_path, holder="command", adopt=adopt
    )
    try:
        yield ledger
    finally:
        ledger.close()


def begin_ledger(config: "PartyConfig") -> "list[Balance] | None":
    """Begin a ledger with the first budgets of the configuration, and return them.

    Returns:
        None, and nothing is changed, where there is a ledger already.

    Raises:
        SettingsError, LedgerError: see `opened_ledger`.
    """
    with opened_ledger(config, may_be_new=True) as ledger:
        return ledger.balances() if ledger.begin(config.first_budgets) else None
