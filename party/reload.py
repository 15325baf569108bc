"""A party that serves, and what of it changes when its files are read again."""

from collections.abc import Callable

import structlog

from ledger.entry import LedgerError
from ledger.ledger import Ledger
from party.batches.member import PartyBatches, PartyPlace
from party.config import MAY_CHANGE, PartyConfig
from party.consent import ConsentBox
from party.jobs import PartyJobs
from party.tables.looks.at_start import warn_of_declarations
from party.tables.looks.budgets import begin_budgets, warn_of_budgets
from service.identity import Identity, Role
from service.logs import configure_logs
from service.server import Server
from service.tls import Credentials, party_credentials
from service.trust.changes import check_changes
from service.watch.meter import Meter
from transport.calls.peers import PeerChannels
from transport.relay.member import StayConnected

log = structlog.get_logger()


class RunningParty:
    """A party that serves, and what of it changes when its files are read again.

    Args:
        config: configuration in use.
        server: server that listens.
        channels: channels to coordinator and peers.
        jobs: jobs of this party.
        batches: its part in them.
        ledger: ledger of its budgets.
        consent: where its owner is asked.
        meter: what it counts.
        use_in_calls: tells the service that answers calls of another configuration.
        stay: connections to its relays.
    """

    def __init__(
        self,
        config: PartyConfig,
        server: Server,
        channels: PeerChannels,
        jobs: PartyJobs,
        batches: PartyBatches,
        ledger: Ledger,
        consent: ConsentBox,
        meter: Meter,
        use_in_calls: Callable[[PartyConfig], None],
        stay: StayConnected,
    ) -> None:
        self.config = config
        self.server = server
        self.ledger = ledger
        self.consent = consent
        self.meter = meter
        self._channels = channels
        self._jobs = jobs
        self._batches = batches
        self._use_in_calls = use_in_calls
        self._stay = stay

    def use(self, config: PartyConfig) -> list[str]:
        """Take over a configuration and the files that its `[tls]` names, all of it or nothing; jobs that run go on.

        Returns:
            The fields that differ.

        Raises:
            SettingsError: a field differs that changes only at a restart.
            CredentialsError: the files cannot be used.
            LedgerError: the budget of a new table cannot be begun.
        """
        changed = check_changes(self.config, config, MAY_CHANGE)
        credentials = own_credentials(config)
        self.server.credentials.check_successor(credentials)
        if "tables" in changed and not self.ledger.is_new:  # one that was lost is begun by no reload
            begin_budgets(self.ledger, config, but=self.config.first_budgets)
        self.server.renew(credentials)
        self._channels.open(config.dials, self.server.credentials)
        self._jobs.use(config)
        self._batches.use(place_of(config))
        self._use_in_calls(config)
        self._stay.use(config.stays_at, self.server.credentials)
        self.config = config
        configure_logs(config.log_format, level=config.log_level)
        log.info("files were read again", party=config.name, changed=", ".join(changed) or "no field")
        if "tables" in changed:
            warn_of_declarations(config.tables)
            try:
                warn_of_budgets(self.ledger, config)
            except LedgerError as error:
                log.error("ledger failed", reason=str(error))
        return changed


def own_credentials(config: PartyConfig) -> Credentials:
    """Load the files of `[tls]`.

    Raises:
        CredentialsError: they cannot be used, or belong to somebody else.
    """
    return party_credentials(config.tls, config.federation, config.name, config.proxy)


def place_of(config: PartyConfig) -> PartyPlace:
    """Return who this party is in batches, and with whom it computes."""
    coordinator = Identity(config.federation, Role.COORDINATOR, config.coordinator.name)
    return PartyPlace(config.name, coordinator.name, coordinator.uri, frozenset(config.peers), config.batches)
