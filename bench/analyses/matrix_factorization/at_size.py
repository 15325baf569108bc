"""Figure 4 of [SGDMF22] in its setting, on as many made-up ratings as MovieLens 1M and 10M have, of known rank.

Neither is here. What stands in has their numbers of users, items and ratings, and a rank of 8
(`bench.scale.factor_scale`); steps, samples and ladders are those of `printed`. With ten million, the paper's own size,
a run takes a processor three minutes, and the rival has its first step size alone: by others it can only err less.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from bench.analyses.matrix_factorization import figures, printed, rivals
from bench.analyses.table import Row
from bench.scale import factor_scale
from bench.scale.factor_scale import CENTRE, Size
from bench.utility import descents
from bench.utility.descents import Positive

ANALYSIS = "matrix factorization, figure 4, made-up ratings"
SIZES = {
    "1M": Size(6040, 3706, 1_000_209),
    "10M": Size(factor_scale.N_USERS, factor_scale.N_ITEMS, factor_scale.N_RATINGS),
}
FEW = Size(300, 200, 10_000)
LARGE = 5_000_000
"""Ratings from which on the rival's step size is not chosen."""

STEP = 0.1
"""The rival's first step size."""

ONE_CONSTANT, FLOOR = "one constant", "all but chance known"


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, a part for each size and unit."""
    both = [(name, unit) for name in SIZES for unit in ("rating", "user")]
    return {f"figure 4, as many as {name}, unit {unit}": partial(clipping, name, unit) for name, unit in both}


def clipping(name: str, unit: str, quick: bool) -> Iterator[Row]:
    """Yield figure 4 at epsilon 8: clipped embeddings against gradients clipped at 10."""
    size = FEW if quick else SIZES[name]
    found, known = factor_scale.split(*factor_scale.made_up(size, factor_scale.RANK))
    train = replace(found.train, deviations=found.train.deviations + CENTRE)
    bounds = (found.bounds[0] + CENTRE, found.bounds[1] + CENTRE)
    data = Positive("made up", train, (*found.test[:2], found.test[2] + CENTRE), bounds, 0)
    of, steps = printed._vertical(1), (100, 10)
    owner_of = np.zeros(train.n_columns, dtype=np.int64)
    ours = partial(descents.vertical, epsilon=8.0, owner_of=owner_of, unit=unit, steps=steps, shape=of)
    rival = partial(rivals.gradient_clipping, epsilon=8.0, unit=unit, n_steps=printed.STEPS, shape=of, clip=10.0)
    is_large = size.ratings >= LARGE
    others = {
        figures.CLIP: (rival(data, STEP) if is_large else printed._best(rival, data, STEP))["mse"],
        ONE_CONSTANT: known["one_constant_for_all"],
        FLOOR: known["floor"],
    }
    yield Row(
        ANALYSIS,
        f"as many as MovieLens {name}, {known['ratings']:,} ratings of {known['users']:,} users about "
        f"{known['items']:,} items, rank {factor_scale.RANK}: unit {unit}, s = 1",
        8.0,
        figures.METRIC,
        private=printed._best(ours, data, 0.3)["mse"],
        others=others,
        note=f"{printed._told(1, steps)}; {f'the rival by steps of {STEP:g} alone; ' if is_large else ''}one split",
    )
