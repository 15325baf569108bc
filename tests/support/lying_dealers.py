"""Owners that deal rows beyond their bounds, completed so that a proof of squares alone would pass.

Each lie is a function of honest complete rows, shape (n, width), as Python integers: it returns what the owner deals,
any integers modulo Q. The squares of a lie add up to the bound modulo each prime wherever that can be done: a check of
each prime by itself accepts them.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import forked_services
import numpy as np
from deviations import everywhere, wrong_products

from mpc.arithmetic.field import ResidueField
from mpc.local.network import Message
from mpc.proofs.norm_bound import NormBound
from mpc.proofs.proven_rows import ProvenRows
from mpc.proofs.squares.four_squares import LARGEST, four_squares
from mpc.protocol.exchange import ShareExchange
from mpc.protocol.session import COORDINATOR

ROW = 5
"""The row that lies."""

Lie = Callable[[np.ndarray, NormBound, ResidueField], None]


def joined(residues: list[int], field: ResidueField) -> int:
    """The integer modulo Q with these residues, balanced."""
    found = sum(
        r * (field.order // p) * pow(field.order // p, -1, p) for r, p in zip(residues, field.primes, strict=True)
    )
    found %= field.order
    return found - field.order if found > field.half_order else found


def root(value: int, p: int) -> int | None:
    """A square root modulo a prime (Cipolla); None where there is none."""
    if value % p == 0:
        return 0
    if pow(value, (p - 1) // 2, p) != 1:
        return None
    a = next(a for a in range(p) if pow(a * a - value, (p - 1) // 2, p) == p - 1)
    w, (x, y), (u, v), power = (a * a - value) % p, (1, 0), (a, 1), (p + 1) // 2
    while power:
        if power & 1:
            x, y = (x * u + y * v * w) % p, (x * v + y * u) % p
        u, v, power = (u * u + v * v * w) % p, 2 * u * v % p, power >> 1
    assert x * x % p == value % p
    return x


def complete_modulo_primes(row: np.ndarray, bound: NormBound, field: ResidueField) -> None:
    """Replace the squares of a row by integers modulo Q with which the sum is right modulo each prime."""
    row[bound.width :] = 0
    missing = bound.squared_norm - sum(int(x) ** 2 for x in row[: bound.width])
    row[bound.width : bound.width + 2] = two_squares(missing, field)


def two_squares(missing: int, field: ResidueField) -> list[int]:
    """Two integers modulo Q whose squares add up to this modulo each prime."""
    residues = []
    for p in field.primes:
        first = next(s for s in range(p) if root((missing - s * s) % p, p) is not None)
        residues.append((first, root((missing - first * first) % p, p)))
    return [joined([pair[side] for pair in residues], field) for side in (0, 1)]


def norm(bound: NormBound) -> int:
    return math.isqrt(bound.squared_norm)


def _entry(value: Callable[[NormBound, ResidueField], int], *rows: int) -> Lie:
    def lie(whole: np.ndarray, bound: NormBound, field: ResidueField) -> None:
        for row in rows or (ROW,):
            whole[row, 0] = value(bound, field)
            complete_modulo_primes(whole[row], bound, field)

    return lie


def _small_squares(*entries: Callable[[NormBound], int]) -> Lie:
    """Entries without anything that would complete them."""

    def lie(whole: np.ndarray, bound: NormBound, field: ResidueField) -> None:
        whole[ROW] = 0
        for place, entry in enumerate(entries):
            whole[ROW, place] = entry(bound)

    return lie


LIES: dict[str, Lie] = {
    "2^30 in one row": _entry(lambda bound, field: 1 << 30),
    "an idempotent of the field": _entry(lambda bound, field: joined([1] + [0] * (len(field.primes) - 1), field)),
    "(Q + 1) / 2 in one row": _entry(lambda bound, field: -field.half_order),
    "(Q + 1) / 2 in two rows": _entry(lambda bound, field: -field.half_order, ROW, ROW + 1),
    "20 times the bound, with squares modulo primes": _entry(lambda bound, field: 20 * norm(bound)),
    "one and a half times the bound": _small_squares(lambda bound: norm(bound) + norm(bound) // 2),
    "1 more than the squared bound": _small_squares(
        norm, lambda bound: math.isqrt(bound.squared_norm - norm(bound) ** 2) + 1
    ),
}


def _indicators(*entries: Callable[[ResidueField], int]) -> Lie:
    def lie(whole: np.ndarray, bound: NormBound, field: ResidueField) -> None:
        whole[ROW] = 0
        for place, entry in enumerate(entries):
            whole[ROW, place] = entry(field)
        whole[ROW, -1] = 1 - sum(int(x) for x in whole[ROW, :-1])

    return lie


ONE_HOT_LIES: dict[str, Lie] = {
    "an idempotent of the field": _indicators(lambda field: joined([1] + [0] * (len(field.primes) - 1), field)),
    "-1": _indicators(lambda field: -1),
    "two categories at once": _indicators(lambda field: 1, lambda field: 1),
    "2^20": _indicators(lambda field: 1 << 20),
}
"""Rows of indicators that are no such, completed by the last one: the idempotent is equal to its square."""


def _bit(value: Callable[[NormBound, ResidueField], int]) -> Lie:
    """Another integer in the place of a bit, with squares by which the proof of the norm passes all the same."""

    def lie(whole: np.ndarray, bound: NormBound, field: ResidueField) -> None:
        row, y = whole[ROW], value(bound, field)
        row[bound.bit] = 0
        features = sum(int(x) ** 2 for x in row[: bound.width])
        row[bound.bit] = y
        missing = bound.squared_norm + y - y * y - features
        if 0 <= missing <= LARGEST:
            row[bound.width :] = four_squares(np.array([missing]))[0]
        else:
            complete_modulo_primes(row, replace(bound, squared_norm=bound.squared_norm + y), field)

    return lie


BIT_LIES: dict[str, Lie] = {
    "2": _bit(lambda bound, field: 2),
    "-1": _bit(lambda bound, field: -1),
    "the bound of the features": _bit(lambda bound, field: norm(bound)),
    "2^30": _bit(lambda bound, field: 1 << 30),
    "an idempotent of the field": _bit(lambda bound, field: joined([1] + [0] * (len(field.primes) - 1), field)),
}
"""Labels beside features that are neither 0 nor 1. The squares agree with each; the idempotent is equal to its own."""


def _value(value: Callable[[int, ResidueField], int]) -> Lie:
    """The first entry of a row, of range r, with squares that complete it modulo each prime (`EntryBounds`)."""

    def lie(whole: np.ndarray, bound: NormBound, field: ResidueField) -> None:
        reach, width = bound.ranges[0], bound.width
        y = value(reach, field)
        whole[ROW, 0] = y
        whole[ROW, width : width + 4] = [*two_squares(reach**2 - (2 * y - reach) ** 2, field), 0, 0]

    return lie


ENTRY_LIES: dict[str, Lie] = {
    "1 more than its range": _value(lambda reach, field: reach + 1),
    "-1": _value(lambda reach, field: -1),
    "2^30": _value(lambda reach, field: 1 << 30),
    "the middle of the field": _value(lambda reach, field: -field.half_order),
    "an idempotent of the field": _value(lambda reach, field: joined([1] + [0] * (len(field.primes) - 1), field)),
}
"""Values beyond their bounds. Twice the one in the middle of the field is a small number."""


@contextmanager
def lying(member: int, lie: Lie) -> Iterator[None]:
    """Let an owner deal other rows than its own, and prove as if they were right."""
    whole_rows = ProvenRows._whole_rows

    def other_rows(self, rows, mine):
        whole = whole_rows(self, rows, mine)
        if self.me == member and rows.start <= ROW < rows.stop:
            whole = whole.astype(object)
            lie(whole, self._bounds[member], self.field)
        return whole

    with mock.patch.object(ProvenRows, "_whole_rows", other_rows):
        yield


def shifted_opening(is_lie: Callable[[Message], bool], lied: list[int]) -> Callable[[Message], tuple[Message, ...]]:
    """Return a fault of the in-process network: a party adds 1 to its share of what the coordinator opens.

    Args:
        is_lie: which messages of an opening are changed.
        lied: takes the senders of what was changed.
    """

    def fault(message: Message) -> tuple[Message, ...]:
        if message.receiver != COORDINATOR or "opening" not in message.stage or not is_lie(message):
            return (message,)
        lied.append(message.sender)
        return (message.altered(with_another_residue(message.array)),)

    return fault


def with_another_residue(share: np.ndarray) -> np.ndarray:
    """Return another share: the residue of the first element modulo the first prime is 1 more, or 1 less."""
    changed = share.copy()
    first = changed.reshape(-1)[:1]
    first += 1 if int(first[0]) & ((1 << 21) - 1) < 1 << 20 else np.uint64((1 << 64) - 1)
    return changed


def serve_a_liar(*service) -> None:
    """Run a party's service that lies in jobs of which it is the first member; see `forked_services.serve_in_child`.

    Where it brings a label beside features, that is 2, else an entry is 2^30.
    """

    def lie(whole: np.ndarray, bound: NormBound, field: ResidueField) -> None:
        (LIES["2^30 in one row"] if bound.bit is None else BIT_LIES["2"])(whole, bound, field)

    with lying(1, lie):
        forked_services.serve_in_child(*service)


def serve_a_wrong_opener(*service) -> None:
    """Run a party's service that adds 1 to its share at each opening in jobs of which it is the first member."""
    reveal = ShareExchange.open

    async def opening(self, label, share, *arguments, **options):
        lies = self.session.me == 1 and arguments[2] == (COORDINATOR,)
        return await reveal(self, label, with_another_residue(share) if lies else share, *arguments, **options)

    with mock.patch.object(ShareExchange, "open", opening):
        forked_services.serve_in_child(*service)


def serve_a_wrong_multiplier(*service) -> None:
    """Run a party's service whose products are wrong by 1 in jobs of which it is the first member."""
    with wrong_products(1, everywhere(1)):
        forked_services.serve_in_child(*service)
