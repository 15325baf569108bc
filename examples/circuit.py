"""Three companies compare their pay with arithmetic on secrets.

    python examples/circuit.py                      all of them in this process
    python examples/circuit.py --mesh alice.toml    one of them; the others run in other processes or on other hosts
    moiety demo circuit                             starts three processes with certificates of their own

Every member runs the same program. Operators on shared arrays are local; `await` marks what takes messages.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from mpc.arithmetic.field import ResidueField
from mpc.local.simulation import run_program_locally
from mpc.protocol.computation import Computation, OpenedArray
from mpc.protocol.shared import concatenate, stack
from transport.messages.mesh import MeshConfig, join_mesh

SALARIES = {1: [4100, 3800, 5200], 2: [3900, 6100], 3: [4500, 4700, 3600, 5000]}  # each row known to one party only


async def program(c: Computation, mine: ArrayLike | None) -> OpenedArray | None:
    shared = await c.inputs({party: (len(row),) for party, row in SALARIES.items()}, mine, bound=10_000)
    pay = concatenate(list(shared.values()))
    deviation = pay.size * pay - pay.sum()  # local; n times the distance from the mean
    squared = await c.multiply(deviation, deviation)  # one round
    sums = stack([pay.sum(), squared.sum(), (squared * deviation).sum()])  # a product opens as it is
    return await c.open(sums, c.members)


async def join_and_run(config: MeshConfig) -> Any:
    async with join_mesh(config, program="pay") as session:
        c = await Computation.start(session, ResidueField(3), n_parties=3, t=1)
        return await program(c, SALARIES[c.me])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--mesh", file]:
            opened = asyncio.run(join_and_run(MeshConfig.load(Path(file))))
        case _:
            opened = run_program_locally(program, SALARIES)
    n = sum(map(len, SALARIES.values()))
    total, squares, cubes = map(int, opened.values)
    deviation = (squares / n) ** 0.5
    print(f"mean {total / n:.2f}, standard deviation {deviation / n:.2f}, skewness {cubes / n / deviation**3:.3f}")
