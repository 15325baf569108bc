"""What an analyst is told of this party's tables: what the owner has declared and permits, and nothing of the rows."""

from collections.abc import Mapping

import structlog

from analyses.job.job import JobInput
from analyses.job.listing import Consent, ListedBudget, ListedTable, Listing
from analyses.registry import ANALYSES
from ledger.entry import LedgerError
from ledger.ledger import Ledger
from party.config import PartyConfig
from party.policy import Answer, Request
from party.tables.config import TableConfig
from party.tables.filters import filter_in_words
from party.tables.ratings_config import RatingsTableConfig
from party.tables.table import describe_table

log = structlog.get_logger()

CONSENTS: Mapping[Answer, Consent] = {Answer.ACCEPT: "at once", Answer.ASK: "owner"}


def listing_of(config: PartyConfig, ledger: Ledger, analyst: str) -> Listing:
    """Return the tables that an analyst may use.

    A table is listed if the policy would not refuse every job of this analyst about it, with all members of the
    federation that this owner knows, however much or little it costs; of its columns those that may be used. No source
    is opened. What remains of a budget follows from the jobs of all analysts, so it is shown where the owner says so
    (`show_budget`) only; a ledger that cannot be read shows nothing.

    Args:
        config: the owner's file.
        ledger: ledger of the tables.
        analyst: who asks, as the coordinator says.
    """
    listed = (_listed(config, ledger, table, analyst) for table in config.tables)
    return Listing(party=config.name, tables=tuple(one for one in listed if one is not None))


def _listed(config: PartyConfig, ledger: Ledger, table: TableConfig, analyst: str) -> ListedTable | None:
    limits = config.policy.limits.columns
    allowed = None if limits is None else limits.get(table.name, ())
    names = [c.name for c in table.encoded if allowed is None or {c.name, c.source} & set(allowed)]
    listed = set(names)
    usual = tuple(name for name in table.usual_columns if name in listed)
    admitted = _admitted(config, table, usual or tuple(names), analyst)
    if not names or not admitted:
        return None
    if isinstance(table, RatingsTableConfig):
        names, usual = [], ()
    return ListedTable(
        name=table.name,
        block=describe_table(config, JobInput(party=config.name, table=table.name, columns=tuple(names))),
        usual=usual,
        admitted=admitted,
        filters=_filters_of(config, table, analyst),
        may_be_exact=table.name in config.policy.limits.exact_tables,
        budget=_budget_of(ledger, table.account) if table.show_budget else None,
    )


def _filters_of(config: PartyConfig, table: TableConfig, analyst: str) -> dict[str, str]:
    """Return the filters that the policy lets an analyst name, in words."""

    def is_admitted(name: str) -> bool:
        asked = config.columns_of_filter(table.name, name)
        request = Request(analyst, "", table.name, (), 0, 0, (), where=name, where_columns=asked)
        return config.policy.limits.admits_filter(request)

    return {name: filter_in_words(conditions) for name, conditions in table.filters.items() if is_admitted(name)}


def _admitted(config: PartyConfig, table: TableConfig, columns: tuple[str, ...], analyst: str) -> dict[str, Consent]:
    n_parties = len(config.peers) + 1
    found: dict[str, Consent] = {}
    for name in sorted(ANALYSES):
        request = Request(
            analyst=analyst,
            analysis=name,
            table=table.name,
            columns=columns,
            sources={column.name: column.source for column in table.encoded},
            n_compute_parties=n_parties,
            colluding=(n_parties - 1) // 2,
            receivers=(analyst, config.coordinator.name),
        )
        consent = CONSENTS.get(config.policy.decide(request).answer)
        if consent is not None:
            found[name] = consent
    return found


def _budget_of(ledger: Ledger, account: str) -> ListedBudget | None:
    try:
        balance = ledger.balance(account)
    except LedgerError as error:
        log.error("ledger failed", reason=str(error))
        return None
    if balance is None:
        return None
    stated = balance.as_dict()
    return ListedBudget(**{name: stated[name] for name in ListedBudget.model_fields})
