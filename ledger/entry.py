"""The entries of a ledger and the chain that binds them: each holds the hash of the one before it.

The text of an entry is JSON with sorted keys. Its hash is SHA-256 over a label, the hash of the entry before it and the
text, so an entry cannot be changed, taken out or put in between without changing the hash of every later one. Times are
for people: order is by number, and no decision depends on a clock.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from dp.cost.renyi_filter import FilterOrder, check_orders
from dp.cost.views import View
from ledger.budget import Budget, BudgetError
from service.errors import ServiceError

VERSION = 3
"""Version of the entries that this program writes; it also reads earlier versions."""

_LABEL = b"moiety privacy ledger entry, version 1\0"  # of the chain, whatever the entries in it


class LedgerError(ServiceError):
    """The ledger cannot be used, so nothing may be opened. The text is for the owner."""

    code = "ledger-unusable"


class LedgerDamagedError(LedgerError):
    """The ledger was edited, truncated or restored from an old copy."""

    code = "ledger-damaged"


@dataclass(frozen=True)
class BudgetSet:
    """The owner set the budget of a table, the first one or another.

    Attributes:
        dataset: name of the table.
        budget: budget from now on.
        reason: the owner's words.
        orders: orders of the filter that admits the period's jobs, fixed before its first job: pairs of a Renyi order
            and its part of delta as a fraction. None in version 1: what the period's first budget gives.
        gaussian_part: the part of delta that the first order yields to a Gaussian filter, if the period's first job has
            such noise (`dp.cost.gaussian_filter`). None before version 3: the period has no such filter.
    """

    dataset: str
    budget: Budget
    reason: str
    orders: tuple[tuple[int, str], ...] | None = None
    gaussian_part: str | None = None

    @property
    def filter_orders(self) -> tuple[FilterOrder, ...] | None:
        """The orders; None where the entry states none."""
        return None if self.orders is None else check_orders(self.orders)


@dataclass(frozen=True)
class Reserved:
    """A job was accepted; what it will cost is held for it.

    Attributes:
        job_id: id of the job.
        dataset: the table it is about.
        analyst: who asks, as the coordinator says.
        analysis: what.
        holder: the installation that runs the job; only it may give the reservation back after a crash.
        consent: who accepted it, "policy" or "owner".
        unit: unit that the events protect.
        events: records of the releases (`dp.cost.events.record`), per view.
        colluding: how many colluding parties the job withstands; None in version 1, which did not keep it.
        version: version of the entry. In version 1 `events` has the coalition's view alone.
    """

    job_id: str
    dataset: str
    analyst: str
    analysis: str
    holder: str
    consent: str
    unit: str
    events: Mapping[View, tuple[Mapping[str, Any], ...]]
    colluding: int | None
    version: int = VERSION


@dataclass(frozen=True)
class Committed:
    """The cost of a job is spent; the job may open its result from now on."""

    job_id: str


@dataclass(frozen=True)
class Released:
    """A job ended before it was committed, so nothing was opened; its reservation is free again."""

    job_id: str
    reason: str


@dataclass(frozen=True)
class ExactRelease:
    """A job was permitted to open an exact result of a table. It has no finite epsilon, so no budget includes it.

    Attributes: see `Reserved`.
    """

    job_id: str
    dataset: str
    analyst: str
    analysis: str
    consent: str


@dataclass(frozen=True)
class Adopted:
    """The owner accepted a ledger that did not match its counter."""

    reason: str


Event = BudgetSet | Reserved | Committed | Released | ExactRelease | Adopted
_KINDS: dict[str, type[Any]] = {
    "budget": BudgetSet,
    "reserved": Reserved,
    "committed": Committed,
    "released": Released,
    "exact": ExactRelease,
    "adopted": Adopted,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Attributes:
        sequence: 1, 2, 3 ...
        at_s: Unix time, as the clock of the writer said.
        what: happened.
        text: what is stored, and hashed.
        digest: digest of the chain up to here, hexadecimal.
    """

    sequence: int
    at_s: float
    what: Event
    text: str
    digest: str

    @property
    def kind(self) -> str:
        """Name of what happened."""
        return _NAMES[type(self.what)]


def genesis(party: str) -> str:
    """Return the digest that stands before the first entry of a party's ledger."""
    return hashlib.sha256(_LABEL + party.encode()).hexdigest()


def write_entry(sequence: int, at_s: float, what: Event, previous: str) -> Entry:
    """Return the entry that follows the one with digest `previous`."""
    document = {**vars(what), "sequence": sequence, "at_s": at_s, "kind": _NAMES[type(what)], "version": VERSION}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, default=asdict)
    return Entry(sequence, at_s, what, text, _digest(previous, text))


def read_entry(sequence: int, text: str, digest: str, previous: str) -> Entry:
    """Read a stored entry and check that it follows the one with digest `previous`.

    Raises:
        LedgerDamagedError: it does not, or it is no entry of this version.
    """
    if _digest(previous, text) != digest:
        raise LedgerDamagedError(
            f"entry {sequence} does not fit the entries before it: the ledger was edited, or belongs to another party"
        )
    try:
        document = json.loads(text)
        kind = _KINDS[document.pop("kind")]
        if document.pop("sequence") != sequence:
            raise LedgerDamagedError(f"entry {sequence} contains a different sequence number: the ledger was edited")
        at_s = float(document.pop("at_s"))
        version = document.pop("version", 1)
        if version not in range(1, VERSION + 1):
            raise LedgerError(f"entry {sequence} has version {version}; this program reads up to version {VERSION}")
        if kind is BudgetSet:
            document["budget"] = Budget(**document["budget"])
            if document.get("orders") is not None:
                document["orders"] = tuple((order, share) for order, share in document["orders"])
                check_orders(document["orders"])
            if document.get("gaussian_part") is not None and not 0 < Fraction(document["gaussian_part"]) < 1:
                raise ValueError("a part of delta must be between 0 and 1")
        if kind is Reserved:
            document |= {"version": version} | _costs(document, version)
        return Entry(sequence, at_s, kind(**document), text, digest)
    except (KeyError, TypeError, ValueError, BudgetError) as error:
        raise LedgerDamagedError(f"entry {sequence} is not of a form that this version writes") from error


def _costs(document: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return the events per view, and the number of colluding parties, of a reservation as it is stored."""
    if version == 1:
        return {"events": {"coalition": tuple(document["events"])}, "colluding": None}
    return {"events": {view: tuple(events) for view, events in document["events"].items()}}


def _digest(previous: str, text: str) -> str:
    return hashlib.sha256(_LABEL + bytes.fromhex(previous) + text.encode()).hexdigest()
