"""`/metrics` for Prometheus: what a service counts, and how it stands when it is asked."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ledger.ledger import Ledger
from page.access import WrongTokens, bears, is_local
from service.identity import Identity, Role
from service.tls import Credentials, days_left
from service.watch.meter import Meter, rounded_up
from service.watch.page_config import PageConfig
from transport.relay.hub import RelayHub


def register_standing(registry: CollectorRegistry, name: str, role: str, current: Callable[[], Credentials]) -> None:
    """Add what any service says of itself: its version, and the days left of certificate and revocation list."""
    Gauge("moiety_info", "This service.", ("name", "role", "version"), registry=registry).labels(
        name, role, version("moiety")
    ).set(1)
    days = Gauge("moiety_certificate_days", "Whole days until this service's certificate expires.", registry=registry)
    days.set_function(lambda: days_left(current().not_valid_after))
    if current().revoked is not None:
        left = Gauge("moiety_revocation_list_days", "Whole days until the revocation list expires.", registry=registry)

        def list_days() -> float:
            known = current().revoked
            return float("nan") if known is None else days_left(known.not_valid_after)

        left.set_function(list_days)


class BudgetCollector(Collector):
    """What remains of the budgets of a party's tables: for its owner's eyes, like the page."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the ledger."""
        part = GaugeMetricFamily("moiety_budget_left_ratio", "Part of a table's budget that remains.", labels=["table"])
        epsilon = GaugeMetricFamily("moiety_budget_left_epsilon", "About what epsilon remains.", labels=["table"])
        for balance in self._ledger.balances():
            standing = balance.as_dict()
            part.add_metric([balance.dataset], standing["remaining_part"])
            epsilon.add_metric([balance.dataset], standing["remaining_epsilon"])
        yield part
        yield epsilon


class PresentJobs(Collector):
    """How many jobs a coordinator has now."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Ask the scheduler."""
        now = GaugeMetricFamily("moiety_jobs_present", "Jobs that wait, ask owners or run now.", labels=["state"])
        for state, n in self._counts().items():
            now.add_metric([state], n)
        yield now


class Leading(Collector):
    """Whether this one of several coordinators leads, and in which term.

    Args:
        leads: returns whether it does.
        term: returns its term, or that of the coordinator that leads.
        since_s: returns the Unix time at which it began to lead; not asked of one that stands by.
    """

    def __init__(self, leads: Callable[[], bool], term: Callable[[], int], since_s: Callable[[], float]) -> None:
        self._leads = leads
        self._term = term
        self._since_s = since_s

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return how it stands now."""
        leads = self._leads()
        yield GaugeMetricFamily(
            "moiety_coordinator_leads", "1 if this coordinator leads, 0 if it stands by.", value=leads
        )
        yield GaugeMetricFamily(
            "moiety_coordinator_term", "The term of the coordinator that leads.", value=self._term()
        )
        if leads:
            what = "Unix time at which this coordinator began to lead."
            yield GaugeMetricFamily("moiety_coordinator_leads_since_seconds", what, value=self._since_s())


def short_name(member: Identity) -> str:
    """Return the name of a party, and the role before the name of others."""
    return member.name if member.role is Role.PARTY else f"{member.role}/{member.name}"


class RelayStanding(Collector):
    """Who is connected to a relay, and what it has forwarded.

    Args:
        relay: relay of this process.
    """

    def __init__(self, relay: RelayHub) -> None:
        self._relay = relay

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Ask the relay."""
        since = GaugeMetricFamily(
            "moiety_relay_connected_since_seconds", "Unix time since when a member is connected.", labels=["member"]
        )
        for member, since_s in self._relay.connected().items():
            since.add_metric([short_name(member)], since_s)
        what = "Bytes forwarded between two members, rounded up to a power of two."
        moved = GaugeMetricFamily("moiety_relay_bytes", what, labels=["caller", "called"])
        for (caller, called), n_bytes in self._relay.ways.traffic().items():
            moved.add_metric([short_name(caller), short_name(called)], rounded_up(n_bytes))
        yield since
        yield moved


class MetricsPage:
    """The endpoint.

    Args:
        config: section `[page]`.
        token: token that a scraper bears; None allows this machine only.
        meter: metrics of the service.
        wrong: delays who bears a wrong token.
    """

    def __init__(self, config: PageConfig, token: str | None, meter: Meter, wrong: WrongTokens) -> None:
        self._config = config
        self._token = token
        self._meter = meter
        self._wrong = wrong

    async def answer(self, request: Request) -> Response:
        """Answer a scrape."""
        is_allowed = is_local(self._config, request) if self._token is None else bears(request, self._token)
        if not is_allowed:
            if "authorization" in request.headers:
                await self._wrong.pause()
            headers = {"WWW-Authenticate": "Bearer"}
            return PlainTextResponse("metrics need a bearer token here\n", status_code=401, headers=headers)
        text = await asyncio.to_thread(generate_latest, self._meter.registry)  # it may read the ledger
        return Response(text, media_type=CONTENT_TYPE_LATEST)
