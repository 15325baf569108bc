"""Privacy events as plain JSON data and back, without loss: what a ledger keeps.

Costs are exact integers and fractions and stay so; a record is never rounded, and its Renyi curve is computed from it
anew. A record names the class of the event by a word of its own, so that classes may be renamed.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import attr

from dp.cost.accounting import Adjacency, AdjacencyError, Floats
from dp.cost.events.discrete_gaussian import (
    DiscreteGaussianDpEvent,
    DiscreteGaussianShiftsDpEvent,
    DiscreteGaussianVectorDpEvent,
)
from dp.cost.events.discrete_laplace import DiscreteLaplaceDpEvent, LaplaceSharesDpEvent
from dp.cost.events.event import PrivacyEvent, renyi_curve
from dp.cost.events.randomized_response import RandomizedResponseDpEvent
from dp.cost.events.sampled_bits import SampledBitsDpEvent
from dp.cost.events.sampling import BoundedSampledDpEvent, PoissonSampledDpEvent
from dp.cost.events.skellam import SkellamDpEvent, SkellamShiftsDpEvent, SkellamVectorDpEvent
from dp.cost.events.sketch import CardinalitySketchDpEvent

EVENTS: tuple[type[Any], ...] = (
    SkellamDpEvent,
    SkellamVectorDpEvent,
    SkellamShiftsDpEvent,
    DiscreteGaussianDpEvent,
    DiscreteGaussianVectorDpEvent,
    DiscreteGaussianShiftsDpEvent,
    DiscreteLaplaceDpEvent,
    LaplaceSharesDpEvent,
    RandomizedResponseDpEvent,
    SampledBitsDpEvent,
    PoissonSampledDpEvent,
    BoundedSampledDpEvent,
    CardinalitySketchDpEvent,
)
"""All events that can be composed and kept."""

_CLASSES = {event_class.word: event_class for event_class in EVENTS}
_NEIGHBOURS = {adjacency.value: adjacency for adjacency in Adjacency}
_FIELDS = {event_class: tuple(field.name for field in attr.fields(event_class)) for event_class in EVENTS}
_KEYS = {event_class: {"event", *fields} for event_class, fields in _FIELDS.items()}

_MAX_CHARACTERS = 8000
"""Longest text of a fraction: far longer than any mechanism produces, and short enough to be parsed at once."""


class UnknownEventError(ValueError):
    """The event cannot be stored and composed, so the cost of the job is unknown."""


def record_of(event: PrivacyEvent) -> dict[str, Any]:
    """Return a JSON object from which `event_from` makes an equal event.

    Raises:
        UnknownEventError: there is no record for events of this class.
    """
    if type(event) not in _FIELDS:
        raise UnknownEventError(f"an event of class {type(event).__name__} cannot be kept in a ledger")
    fields = {name: _written(getattr(event, name)) for name in _FIELDS[type(event)]}
    return {"event": event.word, **fields}


def event_from(record: Mapping[str, Any]) -> PrivacyEvent:
    """Return the event of a record.

    Raises:
        UnknownEventError: the record has an unknown kind, or `record_of` does not make such a record.
    """
    word = record.get("event")
    event_class = _CLASSES.get(word) if isinstance(word, str) else None
    if event_class is None:
        raise UnknownEventError(f"an event of kind {word!r} is unknown to this version")
    if record.keys() != _KEYS[event_class]:
        raise UnknownEventError(f"the record of a {word} event does not have the fields that this version writes")
    try:
        event: PrivacyEvent = event_class(**{name: _read(record[name]) for name in _FIELDS[event_class]})
        return event
    except (ValueError, TypeError, ZeroDivisionError, AdjacencyError) as error:
        raise UnknownEventError(f"the record of a {word} event holds a value that is not a valid cost") from error


def rdp_of(event: PrivacyEvent) -> Floats:
    """Return the Renyi curve of an event at `dp.cost.accounting.ORDERS`, rounded up.

    Raises:
        UnknownEventError: there is none for events of this class.
    """
    if not isinstance(event, PrivacyEvent):
        raise UnknownEventError(f"the Renyi curve of an event of class {type(event).__name__} is not known")
    return renyi_curve(event)


def _written(value: object) -> object:
    match value:
        case Adjacency():
            return value.value
        case PrivacyEvent():
            return record_of(value)
        case int():  # a number of its own kind: a sensitivity is an integer, and a rate of 1 a fraction
            return value
    return str(value)


def _read(value: object) -> object:
    match value:
        case str():
            return _NEIGHBOURS.get(value) or _fraction(value)
        case bool():
            raise ValueError("not a number")
        case int():
            if value < 0:
                raise ValueError("a sensitivity must not be negative")
            return value
        case Mapping():
            return event_from(value)
    raise ValueError("the value must be a number or a name")


@lru_cache(maxsize=256)  # the views of a job, and jobs of one analyst, state many numbers that are the same
def _fraction(text: str) -> Fraction:
    """Read what `str` writes of a fraction that is not negative; twice as quick as Fraction's own reading of a text."""
    numerator, _, denominator = text.partition("/")
    if len(text) > _MAX_CHARACTERS or not text.isascii() or not numerator.isdigit():
        raise ValueError("not the text of a fraction")
    return Fraction(int(numerator), int(denominator or 1))
