"""Messages of a round as byte arrays whose shape everybody knows beforehand, for rounds over a `Session`.

In the complete graph the size of every message follows from the configuration and from what its class declares
(`message_form`), if there is one row per member of the roster and a first byte that says whether the row is there. So
nothing has to be announced, and what has another shape is refused before it is looked at. Members' own messages carry
no number: the session says who sent them.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.errors import LocalFaultError, OutOfRangeError
from mpc.secagg.config import RoundConfig
from mpc.secagg.message_form import HEADER, Members, MessagePerMember, OneString, StringPerMember, parts_of

Bytes = NDArray[np.uint8]

K = TypeVar("K")


class RoundArrays:
    """Turns the messages of one round into arrays and back.

    The parts of a message stand one after the other: a byte string as it is, and a table of one row per member for all
    else. Maps that follow a list of members are columns of its table; a listed member that is in none of them has a
    row of zeros, and the receiver's own row is never in a map. A message that is one table has an array of shape
    (n_members, 1 + width), any other message one of shape (bytes,).

    Args:
        config: configuration of the round.

    Raises:
        LocalFaultError: the graph is not complete.
    """

    def __init__(self, config: RoundConfig) -> None:
        if not config.topology.is_complete:
            raise LocalFaultError("messages have a fixed shape only in rounds with a complete graph")
        self._config = config
        self._n = config.n_members

    def shape(self, kind: type) -> tuple[int, ...]:
        """Return the shape of the array of a class of messages; its type is uint8."""
        blocks = _blocks_of(kind)
        shapes = [self._shape_of(kind, block) for block in blocks]
        return shapes[0] if len(blocks) == 1 else (sum(int(np.prod(shape)) for shape in shapes),)

    def write(self, message: Any) -> Bytes:
        """Return the array of a message.

        Raises:
            LocalFaultError: it has a row of another length than its class declares, or of a stranger.
        """
        kind = type(message)
        arrays = []
        for block in _blocks_of(kind):
            if isinstance(parts_of(kind)[block[0]], OneString):
                arrays.append(np.frombuffer(getattr(message, block[0]), dtype=np.uint8))
            else:
                shape = self._shape_of(kind, block)
                arrays.append(_table(self._rows_of(message, block, shape[1] - 1), shape))
        return arrays[0] if len(arrays) == 1 else np.concatenate([array.reshape(-1) for array in arrays])

    def read(self, kind: type[K], member: int, array: Bytes) -> K:
        """Read what `write` wrote.

        Args:
            kind: class of the message.
            member: who sent it; of a message of the coordinator, who received it.
            array: array of the shape that the class prescribes.

        Raises:
            OutOfRangeError: not such an array.
        """
        data, start, found = array.reshape(-1), 0, dict[str, Any]()
        for block in _blocks_of(kind):
            shape = self._shape_of(kind, block)
            end = start + int(np.prod(shape))
            if len(shape) == 1:
                found[block[0]] = data[start:end].tobytes()
            else:
                found |= self._fields_of(kind, block, member, _rows(data[start:end].reshape(shape)))
            start = end
        return self._message(kind, member, found)

    def _shape_of(self, kind: type, block: tuple[str, ...]) -> tuple[int, ...]:
        if isinstance(parts_of(kind)[block[0]], OneString):
            return (self._width(kind, block[0]),)
        return (self._n, 1 + sum(self._width(kind, name) for name in block))

    def _width(self, kind: type, name: str) -> int:
        """Return the bytes of a string, or of a row of a table, that a field holds."""
        part = parts_of(kind)[name]
        if isinstance(part, Members):
            return 0
        if isinstance(part, MessagePerMember):
            return sum(self._width(part.of, inner) for inner in parts_of(part.of))
        return part.width(self._config)

    def _rows_of(self, message: Any, block: tuple[str, ...], width: int) -> Mapping[int, bytes]:
        """Return member to row of a table."""
        part, first = parts_of(type(message))[block[0]], getattr(message, block[0])
        if isinstance(part, MessagePerMember):
            return {one.member: b"".join(getattr(one, name) for name in parts_of(part.of)) for one in first}
        if isinstance(part, Members):
            maps = [getattr(message, name) for name in block[1:]]
            return {m: b"".join(of[m] for of in maps) if all(m in of for of in maps) else bytes(width) for m in first}
        rows: Mapping[int, bytes] = first
        return rows

    def _fields_of(self, kind: type, block: tuple[str, ...], me: int, rows: Mapping[int, bytes]) -> dict[str, Any]:
        """Return the fields that a table holds; arguments as `read`."""
        part = parts_of(kind)[block[0]]
        if isinstance(part, MessagePerMember):
            inner: Any = part.of
            names = tuple(parts_of(inner))
            return {block[0]: tuple(self._message(inner, m, self._split(inner, names, row)) for m, row in rows.items())}
        if isinstance(part, Members):
            split = {m: self._split(kind, block[1:], row) for m, row in rows.items() if m != me}
            return {block[0]: tuple(rows)} | {name: {m: split[m][name] for m in split} for name in block[1:]}
        return {block[0]: dict(rows)}

    def _split(self, kind: type, names: tuple[str, ...], row: bytes) -> dict[str, bytes]:
        found, start = {}, 0
        for name in names:
            end = start + self._width(kind, name)
            found[name] = row[start:end]
            start = end
        return found

    def _message(self, kind: type[K], member: int, found: Mapping[str, Any]) -> K:
        header: dict[str, Any] = {"round_id": self._config.round_id, "member": member}
        return kind(**{name: header[name] for name in _header_of(kind)}, **found)


def _blocks_of(kind: type) -> tuple[tuple[str, ...], ...]:
    """Return the names of fields that stand together: one string, or the fields of one table."""
    blocks: list[tuple[str, ...]] = []
    is_list_open = False
    for name, part in parts_of(kind).items():
        if is_list_open and isinstance(part, StringPerMember):
            blocks[-1] += (name,)
        else:
            blocks.append((name,))
            is_list_open = isinstance(part, Members)
    return tuple(blocks)


def _header_of(kind: Any) -> tuple[str, ...]:
    return tuple(declared.name for declared in fields(kind) if declared.name in HEADER)


def _table(rows: Mapping[int, bytes], shape: tuple[int, ...]) -> Bytes:
    table = np.zeros(shape, dtype=np.uint8)
    for member, row in rows.items():
        if not 1 <= member <= shape[0] or len(row) != shape[1] - 1:
            raise LocalFaultError(
                "a message of the round has a row of the wrong length, or a row of a member that is not in the roster"
            )
        table[member - 1, 0] = 1
        table[member - 1, 1:] = np.frombuffer(row, dtype=np.uint8)
    return table


def _rows(table: Bytes) -> dict[int, bytes]:
    """Return member to row; a row that is said to be absent must be zero, so that one message has one array.

    Raises:
        OutOfRangeError: it is not, or the first byte is neither 0 nor 1.
    """
    absent = table[:, 0] == 0
    if (table[:, 0] > 1).any() or table[absent].any():
        raise OutOfRangeError("a row of a message of the round is marked neither as present nor as absent")
    return {int(i) + 1: table[i, 1:].tobytes() for i in np.flatnonzero(~absent)}
