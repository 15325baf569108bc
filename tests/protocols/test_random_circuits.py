"""Random programs on shares against Python's integers, in rosters of 3 to 9 parties with every t.

PYTHONPATH=.:proto:tests/support python tests/protocols/test_random_circuits.py 5000
"""

import sys

import numpy as np
import pytest
from programs import opened

from mpc.arithmetic.field import ResidueField

FIELD = ResidueField(6)
ROSTERS = [(n, t) for n in range(3, 10) for t in range(1, (n - 1) // 2 + 1)]
LARGEST = 1 << 24
SIZE = 6


async def _multiply(c, x, y):
    return await c.multiply(x, y)


async def _local(c, x, y):
    return 3 * x - y + 7


async def _not_less(c, x, y):
    return 1 - await c.less(x, y)


async def _chosen(c, x, y):
    return await c.select(await c.less_equal(x, y), 2 * x, -y)


async def _looked_up(c, x, y):
    return await c.lookup(y, await c.low_bits(x, 2))


async def _grouped(c, x, y):
    return (await c.group_sums(y, await c.low_bits(x, 1), 2))[1] + x * 0


OPERATIONS = {
    "multiply": (_multiply, lambda x, y: x * y),
    "local": (_local, lambda x, y: 3 * x - y + 7),
    "equal": (lambda c, x, y: c.equal(x, y), lambda x, y: (x == y) * 1),
    "less": (_not_less, lambda x, y: 1 - (x < y)),
    "select": (_chosen, lambda x, y: np.where(x <= y, 2 * x, -y)),
    "minimum": (lambda c, x, y: c.minimum(x, y), np.minimum),
    "maximum": (lambda c, x, y: c.maximum(x, y), np.maximum),
    "floor_shift": (lambda c, x, y: c.floor_shift(x, 3), lambda x, y: x >> 3),
    "low_bits": (lambda c, x, y: c.low_bits(x, 4), lambda x, y: x % 16),
    "sort": (lambda c, x, y: c.sort(x), lambda x, y: np.sort(x)),
    "lookup": (_looked_up, lambda x, y: y[x % 4]),
    "group_sums": (_grouped, lambda x, y: np.full_like(x, y[x % 2 == 1].sum())),
}


def check_random_program(seed):
    """Run one program of three steps; all that it makes is opened."""
    rng = np.random.default_rng(seed)
    n_parties, t = ROSTERS[seed % len(ROSTERS)]
    given = rng.integers(-40, 41, (2, SIZE))
    exact, bounds, steps = list(given), [40, 40], []
    while len(steps) < 3:
        name = str(rng.choice(list(OPERATIONS)))
        one, other = (int(place) for place in rng.integers(0, len(exact), 2))
        bound = {"multiply": bounds[one] * bounds[other], "group_sums": SIZE * bounds[other]}.get(
            name, 3 * bounds[one] + bounds[other] + 7
        )
        if bound >= LARGEST:
            continue
        steps.append((name, one, other))
        exact.append(OPERATIONS[name][1](exact[one], exact[other]))
        bounds.append(bound)

    async def body(c, x, y):
        made = [x, y]
        for name, one, other in steps:
            made.append(await c.reduce(await OPERATIONS[name][0](c, made[one], made[other])))
        return np.stack(made)

    found = opened(body, *given, bound=40, n_parties=n_parties, t=t, field=FIELD, seed=str(seed))
    np.testing.assert_array_equal(found, exact, err_msg=f"seed {seed}: {steps}")


@pytest.mark.parametrize("seed", range(3))
def test_a_random_program_gives_what_python_says(seed):
    check_random_program(seed)


@pytest.mark.slow
def test_many_random_programs_give_what_python_says():
    for seed in range(3, 31):
        check_random_program(seed)


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        check_random_program(number)
    sys.stdout.write(f"{sys.argv[1]} programs agree\n")
