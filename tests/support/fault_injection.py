"""Protocols among all members over the in-process network, with one fault at one message."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
from virtual_time import run_in_virtual_time

import mpc.protocol.double_sharing
import mpc.protocol.operations.core
import mpc.protocol.reduction
from analyses.rows import joint_computation
from entropy import InsecureTestEntropy
from mpc.arithmetic.field import ResidueField
from mpc.errors import ProtocolError
from mpc.local.network import Fault, LocalNetwork, Message, local_names
from mpc.protocol.session import Session

FIELD = ResidueField(3)
DEADLINE_S = 10.0
"""Deadline in seconds of virtual time."""

SEGMENT = 2
"""Elements per message, so that small arrays make streams of several."""

MAX_POINTS = 4
"""Number of points of a protocol at which each fault is injected in the quick tests."""

MANY_POINTS = 40
"""Number of points of a protocol at which each fault is injected in the slow tests."""

Point = tuple[int, int, str, int]
"""Sender, receiver, stage, sequence."""

Tamper = Callable[[LocalNetwork], Fault]
"""Makes a fault for a network at the chosen message."""


@dataclass(frozen=True)
class Protocol:
    """What runs, and what its members must return.

    Attributes:
        member: what each member runs.
        expected: member to the only value that it may return; members that are left out return None.
        patience: deadlines within which everybody has ended, whatever the fault.
    """

    name: str
    n_parties: int
    t: int
    member: Callable[[Session], Awaitable[Any]]
    expected: Mapping[int, Any]
    n_owners: int = 0
    members: tuple[int, ...] = field(default=())
    patience: int = 2


@dataclass(frozen=True)
class Run:
    network: LocalNetwork
    results: dict[int, Any]
    seconds: float


def run(protocol: Protocol, tamper: Tamper | None = None) -> Run:
    network = LocalNetwork(
        local_names(protocol.n_parties, protocol.n_owners),
        deadline_s=DEADLINE_S,
        entropy_of=lambda member: InsecureTestEntropy(f"{protocol.name} {member}"),
    )
    if tamper is not None:
        network.fault = tamper(network)
    members = protocol.members or tuple(network.names)

    async def timed() -> Run:
        results = await network.run(dict.fromkeys(members, protocol.member))
        return Run(network, results, asyncio.get_running_loop().time())

    with small_segments():
        return run_in_virtual_time(timed())


@contextmanager
def small_segments() -> Iterator[None]:
    """The computation's arrays travel `SEGMENT` elements at a time, and so many rows of a PCA."""
    modules = (mpc.protocol.operations.core, mpc.protocol.double_sharing, mpc.protocol.reduction)
    patches = [mock.patch.object(module, "SEGMENT", SEGMENT) for module in modules]
    patches.append(mock.patch.object(joint_computation, "ROWS_PER_BLOCK", SEGMENT))
    try:
        for patch in patches:
            patch.start()
        yield
    finally:
        mock.patch.stopall()


def messages_of(protocol: Protocol) -> list[Message]:
    """The messages of a run without faults, in the order in which they were sent."""
    clean = run(protocol)
    assert_right(protocol, clean)
    return clean.network.transcript


_POINTS: dict[Any, tuple[Protocol, list[Point]]] = {}
"""By what runs; the protocol is kept, so that nothing else gets its identity."""


def points_of(protocol: Protocol) -> list[Point]:
    """Where faults may happen, found by one run without any; double sharings, which a test may switch on, add some."""
    key = id(protocol.member), mpc.protocol.operations.products.double_sharings_win
    if key not in _POINTS:
        _POINTS[key] = protocol, [point_of(message) for message in messages_of(protocol)]
    return list(_POINTS[key][1])


def in_turn(points: Sequence[Point], turn: int, at_most: int = MAX_POINTS) -> list[Point]:
    """Select evenly spaced points from each stage; another turn selects other points."""
    step = -(-len(points) // at_most) if points else 1
    return sorted(points, key=lambda point: point[2])[turn % step :: step]


def many(points: Sequence[Point], turn: int) -> list[Point]:
    """Select a third of the points of each stage, or fewer, evenly spaced, where that is more than `MANY_POINTS`."""
    step = max(3, -(-len(points) // MANY_POINTS))
    return sorted(points, key=lambda point: point[2])[turn % step :: step]


def point_of(message: Message) -> Point:
    return message.sender, message.receiver, message.stage, message.sequence


# -- faults ------------------------------------------------------------------------------------------------------------


def at(point: Point, change: Callable[[Message], Sequence[Message]]) -> Tamper:
    def tamper(network: LocalNetwork) -> Fault:
        return lambda message: change(message) if point_of(message) == point else (message,)

    return tamper


def drop(point: Point) -> Tamper:
    return at(point, lambda message: ())


def delay_within_deadline(point: Point) -> Tamper:
    return at(point, lambda message: (message.delayed(DEADLINE_S / 10),))


def delay_beyond_deadline(point: Point) -> Tamper:
    return at(point, lambda message: (message.delayed(1.5 * DEADLINE_S),))


def repeat(point: Point) -> Tamper:
    return at(point, lambda message: (message, message))


def reorder(point: Point) -> Tamper:
    """Deliver the message after the sender's next one, to whomever that goes."""

    def tamper(network: LocalNetwork) -> Fault:
        held: list[Message] = []

        def fault(message: Message) -> Sequence[Message]:
            if point_of(message) == point:
                held.append(message)
                return ()
            if held and message.sender == point[0]:
                return message, held.pop()
            return (message,)

        return fault

    return tamper


def reorder_stream(point: Point) -> Tamper:
    """Deliver the message after the next one of its stage to the same receiver."""

    def tamper(network: LocalNetwork) -> Fault:
        held: list[Message] = []

        def fault(message: Message) -> Sequence[Message]:
            if point_of(message) == point:
                held.append(message)
                return ()
            if held and point_of(message)[:3] == point[:3]:
                return message, held.pop()
            return (message,)

        return fault

    return tamper


def put_out_of_range(point: Point) -> Tamper:
    return at(point, lambda message: (message.altered(np.full_like(message.array, np.iinfo(message.array.dtype).max)),))


def cut_short(point: Point) -> Tamper:
    return at(point, lambda message: (message.altered(message.array.reshape(-1)[:-1]),))


def change_type(point: Point) -> Tamper:
    other = {np.dtype(np.uint8): np.uint64, np.dtype(np.uint64): np.uint8}
    return at(point, lambda message: (message.altered(message.array.astype(other[message.array.dtype])),))


def send_under_another_stage(point: Point) -> Tamper:
    """The message arrives among those of another stage of the same pair."""
    others = {"computation/products": "computation/input", "table": "noise", "noise": "table"}
    other = others.get(point[2], "computation/products")
    return at(point, lambda message: (replace(message, stage=other),))


def make_wrong_share(point: Point) -> Tamper:
    """Another valid array of field elements: each is one larger."""

    def change(message: Message) -> Sequence[Message]:
        one = FIELD.encode(np.ones(message.array.shape[1:], dtype=np.int64))
        return (message.altered(FIELD.add(message.array, one)),)

    return at(point, change)


def kill_sender(point: Point) -> Tamper:
    """The sender drops_out just before this message leaves."""

    def tamper(network: LocalNetwork) -> Fault:
        def fault(message: Message) -> Sequence[Message]:
            if point_of(message) == point:
                network.kill(message.sender)
            return () if message.sender in network.lost else (message,)

        return fault

    return tamper


MESSAGE_FAULTS = {
    "drop": drop,
    "delay within deadline": delay_within_deadline,
    "delay beyond deadline": delay_beyond_deadline,
    "repeat": repeat,
    "reorder": reorder,
    "put out of range": put_out_of_range,
    "cut short": cut_short,
    "change type": change_type,
    "send under another stage": send_under_another_stage,
}


# -- verdicts ----------------------------------------------------------------------------------------------------------


def assert_right(protocol: Protocol, run: Run) -> None:
    for member, result in run.results.items():
        assert is_right(protocol, member, result), (member, result)


def is_right(protocol: Protocol, member: int, result: Any) -> bool:
    expected = protocol.expected.get(member)
    if isinstance(result, ProtocolError) or (expected is None) != (result is None):
        return False
    return expected is None or bool(np.array_equal(result, expected))


def assert_right_or_declared(protocol: Protocol, run: Run) -> None:
    """Nobody returns a wrong value; who failed says so in time, with a declared error that names a member."""
    assert run.seconds <= protocol.patience * DEADLINE_S, run.seconds
    for member, result in run.results.items():
        if member in run.network.lost or is_right(protocol, member, result):
            continue
        assert isinstance(result, ProtocolError), (member, result)
        assert any(name in str(result) for name in run.network.names.values()) or "shares of" in str(result), result
