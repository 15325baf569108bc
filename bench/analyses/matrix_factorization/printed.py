"""Figures 4 to 10 of [SGDMF22] in the setting that the paper prints, on data of a hundredth of its size.

p = 20, 1000 steps in all, each on a hundredth of the units (figure 10: ten on all); theta 10, with several owners 5,
with 18 of them 2. The paper does not print how many final steps there are; here 50. Step sizes are constant, where the
paper lets them fall; of every method the one is taken that is best on the test part, of a ladder of factors of 3 that
is climbed until both neighbours are worse. One split, and one run for each number: a percent more or less says nothing.
Noise is a rounded normal variable, `descents.QuickSteps`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from bench.analyses.matrix_factorization import figures, rivals
from bench.analyses.table import Row
from bench.datasets import bundled
from bench.utility import descents, factors
from bench.utility.descents import Positive, Shape

UNCLIPPED = "gradient clipping, C = 50"
LOCAL, LOCAL_BEST = "local descent, non-private", "local descent, stopped at its best"
LADDER = 3.0
STEPS = 1000
VERTICAL_THETA = {1: 10, 2: 5, 5: 5, 10: 5, 18: 2}
"""Owners to theta."""
FREQUENCIES = ((1000, 1), (100, 10), (20, 50), (1, 1000))
"""T and T'."""
EPSILONS = (8.0, 4.0, 2.0, 1.0)


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, figure by figure."""
    return {f"figure {number}, as printed": partial(_on_the_data, part) for number, part in ALL}


def _on_the_data(part: "Part", quick: bool) -> Iterator[Row]:
    return part(Positive.load(figures.data_set(), 0), quick)


def analysis(number: str) -> str:
    """Return what the rows of a figure, or of some, are called."""
    return f"matrix factorization, figure {number}, as printed"


def _row(number: str, what: str, epsilon: float | None, setting: str, **found: Any) -> Row:
    return Row(
        analysis(number),
        f"{figures.data_set()}: {what}",
        epsilon,
        figures.METRIC,
        note=f"{setting}; one split",
        **found,
    )


def _vertical(n_owners: int) -> Shape:
    return Shape(20, VERTICAL_THETA[n_owners], 0.01, final_steps=50, is_of_a_job=True, rounds_normals=True)


HORIZONTAL = Shape(20, 10, 0.01, is_of_a_job=True, rounds_normals=True)
DEVICES = Shape(20, 10, 1.0, is_of_a_job=True, rounds_normals=True)


def _told(n_owners: int, steps: tuple[int, int]) -> str:
    return f"p = 20, T = {steps[0]}, T' = {steps[1]}, eta .01, theta {VERTICAL_THETA[n_owners]}, kappa 50"


def _best(run: Callable[..., dict[str, float]], data: Positive, size: float) -> dict[str, float]:
    """Return what the best size of steps came to, climbing from one that others were best at."""
    found = {size: run(data, size)}

    def error(size: float) -> float:
        if size not in found:
            found[size] = run(data, size)
        return found[size]["mse"]

    for factor in (LADDER, 1 / LADDER):
        while error(size * factor) < error(size):
            size *= factor
    return found[size]


def clipping(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield figure 4: clipped embeddings against clipped gradients in the middle, with noise and without."""
    of, steps = _vertical(1), (100, 10)
    for unit in ("rating", "user"):
        for epsilon in (None, *EPSILONS)[: 2 if quick else None]:
            run = partial(descents.vertical, epsilon=epsilon, owner_of=figures._split(1), unit=unit, steps=steps)
            ours = _best(partial(run, shape=of), data, 1.5 if epsilon is None else 0.3)["mse"]
            rival = partial(rivals.gradient_clipping, epsilon=epsilon, unit=unit, n_steps=STEPS, shape=of)
            others = {
                name: _best(partial(rival, clip=clip), data, 0.3 if epsilon is None else 0.03)["mse"]
                for name, clip in ((figures.CLIP, 10.0), (UNCLIPPED, 50.0))
            }
            yield _row("4", f"unit {unit}, s = 1", epsilon, _told(1, steps), private=ours, others=others)


def in_the_middle(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield figure 5: DP-SGLD and objective perturbation, at the epsilon that their authors claim."""
    of = _vertical(1)
    for unit in ("rating", "user"):
        for epsilon in EPSILONS[: 1 if quick else None]:
            options: dict[str, Any] = {"epsilon": epsilon, "unit": unit, "shape": of}
            run = partial(descents.vertical, owner_of=figures._split(1), steps=(100, 10), **options)
            others = {
                figures.SGLD: _best(partial(rivals.sgld, n_steps=STEPS, **options), data, 1.0)["mse"],
                figures.OBJECTIVE: _best(partial(rivals.perturbed_objective, **options), data, 1.0)["mse"],
            }
            told = f"{_told(1, (100, 10))}; DP-SGLD with 1000 steps, of objective perturbation the best ridge"
            yield _row("5", f"unit {unit}, s = 1", epsilon, told, private=_best(run, data, 0.3)["mse"], others=others)


def by_category() -> Any:
    """Return an owner of each item of MovieLens, as the paper splits them: of its categories the one with fewest items.

    Two items of MovieLens 100K have no category; they go to the smallest one.
    """
    places = np.unique(bundled.read(factors.SETS["movielens-100k"][0])["item"].to_numpy())
    table = pl.DataFrame({"item": places}).join(bundled.read("movielens_100k/items"), on="item", how="left")
    belongs = table.select(table.columns[4:]).fill_null(0).to_numpy() > 0
    return np.argmin(np.where(belongs, belongs.sum(axis=0), len(places) + belongs.sum(axis=0)), axis=1)


def categories(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield figure 6 (b) and (d): 18 owners, each of one category."""
    if data.name != "movielens-100k":
        return
    owner_of, steps = by_category(), (100, 10)
    for unit in ("rating", "user")[: 1 if quick else None]:
        run = partial(descents.vertical, epsilon=8.0, owner_of=owner_of, unit=unit, shape=_vertical(18), steps=steps)
        ours, local = (_best(partial(run, together=together), data, 0.3)["mse"] for together in (True, False))
        what = f"unit {unit}, s = 18, by category, T = {steps[0]}, T' = {steps[1]}"
        yield _row("6, by category", what, 8.0, _told(18, steps), private=ours, others={figures.LOCAL_ONLY: local})


def frequency(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield figure 6: how often 18 owners with items at random meet, per rating and per user."""
    for unit in ("rating", "user"):
        run = partial(descents.vertical, epsilon=8.0, owner_of=figures._split(18), unit=unit, shape=_vertical(18))
        local = _best(partial(run, together=False, steps=(100, 10)), data, 0.3)["mse"]
        for steps in FREQUENCIES[: 1 if quick else None]:
            ours = _best(partial(run, steps=steps), data, 0.3)["mse"]
            what = f"unit {unit}, s = 18, random, T = {steps[0]}, T' = {steps[1]}"
            yield _row("6", what, 8.0, _told(18, steps), private=ours, others={figures.LOCAL_ONLY: local})


def owners(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield figure 7: owners together against each alone with privacy."""
    for unit in ("rating", "user"):
        for n_owners in (2, 5, 10):
            for epsilon in (8.0, 2.0)[: 1 if quick or unit == "user" else None]:
                run = partial(descents.vertical, epsilon=epsilon, owner_of=figures._split(n_owners), unit=unit)
                run = partial(run, shape=_vertical(n_owners), steps=(100, 10))
                ours, local = (_best(partial(run, together=together), data, 0.3)["mse"] for together in (True, False))
                what, told = f"unit {unit}, s = {n_owners}", _told(n_owners, (100, 10))
                yield _row("7", what, epsilon, told, private=ours, others={figures.LOCAL_ONLY: local})


def alone(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield the dotted line of figure 9: each party alone by descent without noise, at its end and at its best."""
    for n_parties in (10, 40)[: 1 if quick else None]:
        run = partial(rivals.local_descent, n_parties=n_parties, n_steps=STEPS, shape=HORIZONTAL)
        found = _best(run, data, 0.3)
        others = {LOCAL: found["mse"], LOCAL_BEST: found["best"]}
        yield _row("9, alone", f"s = {n_parties}", None, "p = 20, 1000 steps, eta .01", others=others)


def parties(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield figures 8 and 9: users fitted first or moved, and synSGD."""
    told = "p = 20, T = 100, T' = 10, noise party, eta .01, theta 10"
    for n_parties in (10, 40)[: 1 if quick else None]:
        run = partial(descents.horizontal, epsilon=8.0, n_parties=n_parties, noise="party", steps=(100, 10))
        run = partial(run, shape=HORIZONTAL)
        ours = _best(run, data, 1.0)
        syn = partial(rivals.syn_sgd, epsilon=8.0, n_parties=n_parties, n_steps=STEPS, shape=HORIZONTAL)
        others = {
            figures.RELEASED: ours["released"],
            figures.SYN: _best(syn, data, 0.01)["mse"],
        }
        if n_parties == 10:  # of figure 8 too
            both = _best(partial(run, pre_train=False), data, 1.0)
            others |= {figures.TRAIN_BOTH: both["mse"], f"{figures.TRAIN_BOTH}, {figures.RELEASED}": both["released"]}
        yield _row("8 and 9", f"unit user, s = {n_parties}", 8.0, told, private=ours["mse"], others=others)


def devices(data: Positive, quick: bool) -> Iterator[Row]:
    """Yield figure 10: devices that drop out, omega .3 and .6, against reports with local privacy."""
    first, n = descents.stage_1_alone(data), data.train.n_rows
    told = "p = 20 (GD-DR, stage 1 alone: p = 4), T = 10, all devices in each step, theta 10"
    for epsilon in (8.0, 2.0)[: 1 if quick else None]:
        others = {figures.GD_DR: _best(partial(rivals.gd_dr, epsilon=epsilon), data, 0.1)["mse"]}
        others[figures.STAGE_1] = first
        for omega, dropouts in ((0.3, (0.0, 0.1, 0.2)), (0.6, (0.0, 0.2, 0.3, 0.4, 0.5))):
            for dropped in dropouts:
                run = partial(descents.horizontal, epsilon=epsilon, n_parties=n, setting="local", steps=(10, 1))
                run = partial(run, dropped=dropped, omega=omega, shape=DEVICES)
                what = f"unit user, {dropped:.0%} drop out, omega {omega}"
                yield _row("10", what, epsilon, told, private=_best(run, data, 0.3)["mse"], others=others)


Part = Callable[[Positive, bool], Iterator[Row]]

ALL: tuple[tuple[str, Part], ...] = (
    ("4", clipping),
    ("5", in_the_middle),
    ("6", frequency),
    ("6, by category", categories),
    ("7", owners),
    ("9, alone", alone),
    ("8 and 9", parties),
    ("10", devices),
)
