"""Operations on several steps of one row, as `Computation` has them on arrays, written as lines of single steps.

A list of steps stands for an array. What a list comes to is the same, and owners read each comparison as a line.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

from analyses.job.job import JobError
from mpc.protocol.operations.selections import sorting_network

Value = Any
"""A step, or a whole number."""

Recorder = Any
"""What a program calls `c` (`analyst.recording.Recorder`)."""


def _vector(operation: str, values: object) -> list[Value]:
    if not isinstance(values, list | tuple) or not values:
        raise JobError(f"{operation} takes a list of steps of one row, such as [x, y]")
    return list(values)


async def sort(c: Recorder, values: Sequence[Value]) -> list[Value]:
    """Return the values in ascending order. Cost: a comparison and two selections per comparator of Batcher's."""
    ordered = _vector("sort", values)
    for lower, upper in sorting_network(len(ordered)):
        for one, other in zip(lower.tolist(), upper.tolist(), strict=True):
            x, y = ordered[one], ordered[other]
            swapped = await c.less(y, x)
            ordered[one], ordered[other] = await c.select(swapped, y, x), await c.select(swapped, x, y)
    return ordered


async def top_k(c: Recorder, values: Sequence[Value], k: int) -> list[Value]:
    """Return the k largest values in descending order."""
    ordered = await sort(c, values)
    if not 0 < k <= len(ordered):
        raise JobError(f"{k} values cannot be taken of {len(ordered)}")
    return ordered[::-1][:k]


async def median(c: Recorder, values: Sequence[Value]) -> Value:
    """Return the middle value; of an even number the lower one of the two."""
    ordered = await sort(c, values)
    return ordered[(len(ordered) - 1) // 2]


async def count_distinct(c: Recorder, values: Sequence[Value]) -> Value:
    """Return how many different values there are."""
    ordered = await sort(c, values)
    repeated = [await c.equal(x, y) for x, y in pairwise(ordered)]
    return len(ordered) - sum(repeated) if repeated else ordered[0] * 0 + 1


async def argmax(c: Recorder, values: Sequence[Value]) -> tuple[Value, Value]:
    """Return the place of the first of the largest values, and that value."""
    found = _vector("argmax", values)
    place, largest = 0, found[0]
    for number, value in enumerate(found[1:], 1):
        later = await c.less(largest, value)
        place = await c.select(later, number, place)
        largest = await c.select(later, value, largest)
    return place, largest


async def one_hot(c: Recorder, index: Value, length: int) -> list[Value]:
    """Return 1 at a secret place of so many and 0 elsewhere."""
    return [await c.equal(index, place) for place in range(length)]


async def lookup(c: Recorder, table: Sequence[Value], index: Value) -> Value:
    """Return the value at a secret place; outside the list it is 0."""
    values = _vector("lookup", table)
    return sum([here * value for here, value in zip(await one_hot(c, index, len(values)), values, strict=True)])


async def prod(c: Recorder, values: Sequence[Value]) -> Value:
    """Return the product."""
    product, *others = _vector("prod", values)
    for value in others:
        product = product * value
    return product


async def is_zero(c: Recorder, x: Value) -> Value:
    """Return whether a value is 0."""
    return await c.equal(x, 0)


async def bits(c: Recorder, x: Value, n_bits: int) -> list[Value]:
    """Return the lowest bits, the least significant first."""
    found = []
    for _ in range(n_bits):
        found.append(await c.low_bits(x, 1))
        x = await c.floor_shift(x, 1)
    return found


async def from_bits(c: Recorder, values: Sequence[Value]) -> Value:
    """Return the integer of bits, the least significant first."""
    return sum([bit * (1 << place) for place, bit in enumerate(_vector("from_bits", values))])


async def multiply_fixed(c: Recorder, x: Value, y: Value, scale_bits: int) -> Value:
    """Return a product at the scale of its factors."""
    return await c.truncate(x * y, scale_bits)


VECTORS: dict[str, Callable[..., Awaitable[Any]]] = {
    function.__name__: function
    for function in (
        sort, top_k, median, count_distinct, argmax, one_hot, lookup, prod, is_zero, bits, from_bits, multiply_fixed,
    )
}  # fmt: skip
"""Name to what writes its lines."""
