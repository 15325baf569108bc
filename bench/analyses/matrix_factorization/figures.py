"""Figures 4 to 10 of [SGDMF22] at equal true privacy: the form `sgd`, corrected, beside what it is compared with.

On MovieLens 100K where it lies here, else on InstEval; medians of three seeds, step sizes as `bench.utility.descents`.
In a row the paper's form is the corrected `sgd`, MPC the form `statistics` at the same epsilon and for the same unit.
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from bench.analyses.matrix_factorization import rivals
from bench.analyses.table import Row
from bench.datasets import bundled
from bench.utility import descents, factors
from bench.utility.descents import Positive, tuned

METRIC = "mean squared error of left-out ratings, less is better"
SEEDS = 3
EPSILONS = (8.0, 2.0)
CLIP, SGLD, OBJECTIVE = "gradient clipping, C = 10", "DP-SGLD", "objective perturbation"
LOCAL_ONLY, ALONE, SYN, GD_DR = "DP local-only", "alone, non-private", "synSGD", "GD-DR, shuffled"
RELEASED, STAGE_1, TRAIN_BOTH = "before fine-tuning", "stage 1 alone", "users moved in each step"
DPALS = "matrix factorization, DPALS"
ROUNDS = ((50, 1), (10, 5), (1, 50))
"""T and T'."""


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, figure by figure."""
    return {"DPALS": private_als, **{f"figure {number}": part for number, part in FIGURES.items()}}


def analysis(number: int) -> str:
    """Return what a figure's rows are called."""
    return f"matrix factorization, figure {number}"


def data_set() -> str:
    """Return the name of the data set of the figures."""
    return "movielens-100k" if bundled.is_available(factors.SETS["movielens-100k"][0]) else "insteval"


def _sets(quick: bool) -> list[Positive]:
    return [Positive.load(data_set(), seed) for seed in range(1 if quick else SEEDS)]


def _epsilons(quick: bool) -> tuple[float, ...]:
    return EPSILONS[:1] if quick else EPSILONS


def _row(number: int, what: str, epsilon: float | None, **found: Any) -> Row:
    return Row(analysis(number), f"{data_set()}: {what}", epsilon, METRIC, **found)


def _statistics(method: str, epsilon: float, quick: bool) -> float:
    """Return the error of the form `statistics`."""
    measured = factors.METHODS[method]
    seeds = range(1 if quick else SEEDS)
    return statistics.median(measured(factors.load(data_set(), seed), epsilon, seed) for seed in seeds)


def _split(n_parties: int) -> Any:
    """Return an owner of each item: at random, but the same in every run."""
    n_items = factors.load(data_set(), 0).train.n_columns
    return np.random.default_rng(0).permutation(n_items) % n_parties


def _median(run: Callable[..., dict[str, float]], sets: list[Positive], **options: Any) -> float:
    """Return the error of a method without a step size."""
    return statistics.median(run(data, 1.0, **options)["mse"] for data in sets)


# -- vertical ------------------------------------------------------------------------------------------------------


def clipping(quick: bool) -> Iterator[Row]:
    """Yield figure 4: clipped embeddings against clipped gradients, in the middle."""
    sets = _sets(quick)
    for unit in ("rating", "user"):
        for epsilon in _epsilons(quick):
            ours = tuned(partial(descents.vertical, epsilon=epsilon, owner_of=_split(1), unit=unit), sets)["mse"]
            clipped = tuned(partial(rivals.gradient_clipping, epsilon=epsilon, unit=unit), sets)["mse"]
            other = _statistics("vertical, released", epsilon, quick) if unit == "rating" else None
            yield _row(4, f"unit {unit}, s = 1", epsilon, private=ours, mpc=other, others={CLIP: clipped})


def in_the_middle(quick: bool) -> Iterator[Row]:
    """Yield figure 5: DP-SGLD and objective perturbation. Their epsilon is the one that their authors claim."""
    sets = _sets(quick)
    for unit in ("rating", "user"):
        for epsilon in _epsilons(quick):
            ours = tuned(partial(descents.vertical, epsilon=epsilon, owner_of=_split(1), unit=unit), sets)["mse"]
            # What [Hua15] protects is V given U: users are fitted without noise, and V learns through them.
            others = {
                SGLD: _median(rivals.sgld, sets, epsilon=epsilon, unit=unit),
                OBJECTIVE: _median(rivals.perturbed_objective, sets, epsilon=epsilon, unit=unit),
            }
            yield _row(5, f"unit {unit}, s = 1", epsilon, private=ours, others=others)


def rounds(quick: bool) -> Iterator[Row]:
    """Yield figure 6: how often owners meet, T T' = 50."""
    sets = _sets(quick)
    epsilon, owner_of = EPSILONS[0], _split(10)
    local = tuned(partial(descents.vertical, epsilon=epsilon, owner_of=owner_of, together=False), sets)["mse"]
    for steps in ROUNDS[: 1 if quick else None]:
        run = partial(descents.vertical, epsilon=epsilon, owner_of=owner_of, steps=steps)
        what = f"unit rating, s = 10, random, T = {steps[0]}, T' = {steps[1]}"
        yield _row(6, what, epsilon, private=tuned(run, sets)["mse"], others={LOCAL_ONLY: local})


def owners(quick: bool) -> Iterator[Row]:
    """Yield figure 7: owners together against each alone, with privacy and without."""
    sets = _sets(quick)
    for unit, n_owners, epsilon in (("rating", 2, 8.0), ("rating", 10, 8.0), ("user", 10, 8.0)):
        run = partial(descents.vertical, epsilon=epsilon, owner_of=_split(n_owners), unit=unit, steps=ROUNDS[1])
        local = partial(run, together=False)
        others = {LOCAL_ONLY: tuned(local, sets)["mse"]}
        others[ALONE] = statistics.median(rivals.alone(data, by_items=_split(n_owners)) for data in sets)
        is_default = unit == "rating" and n_owners == 10
        default = _statistics("vertical stage 3, 10 parties", epsilon, quick) if is_default else None
        ours = tuned(run, sets)["mse"]
        yield _row(7, f"unit {unit}, s = {n_owners}", epsilon, private=ours, mpc=default, others=others)
        if quick:
            return


# -- horizontal ----------------------------------------------------------------------------------------------------


def pre_training(quick: bool) -> Iterator[Row]:
    """Yield figure 8: users fitted first, or moved in each step."""
    sets = _sets(quick)
    epsilon = EPSILONS[0]
    for n_parties, noise, steps in ((10, "once", (20, 1)), (10, "party", (4, 5)), (40, "once", (20, 1))):
        run = partial(descents.horizontal, epsilon=epsilon, n_parties=n_parties, noise=noise, steps=steps)
        first = tuned(run, sets)
        both = tuned(partial(run, pre_train=False), sets)
        others = {TRAIN_BOTH: both["mse"], RELEASED: first["released"]}
        others[f"{TRAIN_BOTH}, {RELEASED}"] = both["released"]
        what = f"unit user, s = {n_parties}, noise {noise}"
        yield _row(8, what, epsilon, private=first["mse"], others=others)
        if quick:
            return


def gradients_of_all(quick: bool) -> Iterator[Row]:
    """Yield figure 9: synSGD, and each party alone without noise."""
    sets = _sets(quick)
    for n_parties in (10, 40):
        local = statistics.median(rivals.alone(data, n_parties=n_parties) for data in sets)
        for epsilon in _epsilons(quick)[: 1 if n_parties == 10 else None]:
            ours = tuned(partial(descents.horizontal, epsilon=epsilon, n_parties=n_parties), sets)
            syn = tuned(partial(rivals.syn_sgd, epsilon=epsilon, n_parties=n_parties), sets)["mse"]
            default = _statistics(f"horizontal stage 3, {n_parties} parties", epsilon, quick)
            others = {ALONE: local, SYN: syn, RELEASED: ours["released"]}
            yield _row(9, f"unit user, s = {n_parties}", epsilon, private=ours["mse"], mpc=default, others=others)
        if quick:
            return


def devices(quick: bool) -> Iterator[Row]:
    """Yield figure 10: devices that drop out, against reports with local privacy."""
    sets = _sets(quick)
    first = statistics.median(descents.stage_1_alone(data) for data in sets)
    n = sets[0].train.n_rows
    for epsilon in _epsilons(quick):
        others = {GD_DR: tuned(partial(rivals.gd_dr, epsilon=epsilon), sets)["mse"], STAGE_1: first}
        for dropped in (0.0, 0.2):
            run = partial(descents.horizontal, epsilon=epsilon, n_parties=n, setting="local", steps=(10, 1))
            ours = tuned(partial(run, dropped=dropped), sets)["mse"]
            default = _statistics("local, a fifth drops out", epsilon, quick) if dropped else None
            what = f"unit user, {dropped:.0%} drop out, omega 0.3"
            yield _row(10, what, epsilon, private=ours, mpc=default, others=others)
            if quick:
                return


def private_als(quick: bool) -> Iterator[Row]:
    """Yield DPALS, for which somebody holds all ratings, beside the factors of the form `statistics`, p = 4, T = 5."""
    sets = _sets(quick)
    for epsilon in _epsilons(quick):
        central = statistics.median(rivals.private_als(data, epsilon=epsilon)["mse"] for data in sets)
        ours = _statistics("factors p = 4, T = 5", epsilon, quick)
        offsets = _statistics("horizontal offsets", epsilon, quick)
        others = {"offsets alone": offsets}
        what = f"{data_set()}: unit user, p = 4, T = 5"
        yield Row(DPALS, what, epsilon, METRIC, mpc=ours, central=central, others=others, note="central DP is DPALS")


FIGURES: dict[int, Callable[[bool], Iterator[Row]]] = {
    4: clipping,
    5: in_the_middle,
    6: rounds,
    7: owners,
    8: pre_training,
    9: gradients_of_all,
    10: devices,
}
