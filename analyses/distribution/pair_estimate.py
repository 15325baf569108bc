"""Shares of the cells of a grid over two numbers, of the parts of either range, and of rectangles."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analyses.distribution.estimates.frequencies import Floats
from analyses.distribution.estimates.shares import shares_of_sets
from analyses.distribution.methods import Oracle
from analyses.distribution.pairs import PairGrid, Rectangle
from analyses.job.forecast import NORMAL_95


def pair_shares(
    grid: PairGrid,
    oracle: Oracle,
    frequencies: Floats,
    whole: Floats,
    n_responses: int,
    rectangles: Sequence[Rectangle] = (),
) -> tuple[dict[str, Any], bool]:
    """Return what the responses say of two numbers at once, JSON-able, and whether its intervals are known.

    Shares are those of one distribution over the cells, which is spread evenly within each. Intervals of 95 % are about
    the shares without bias, and stretched to hold what is stated. That of a rectangle that cuts cells reaches from the
    lower end of the cells it covers to the upper end of all it meets: the truth lies between the shares of these two
    sets wherever in the cells people are, so it is held in 95 % of results at least.

    Args:
        grid: the cells.
        oracle: which was answered by; its inputs are the cells and the empty one.
        frequencies: shape (cells + 1,), without bias.
        whole: shape (cells + 1,), the distribution made of them.
        n_responses: number of responses.
        rectangles: whose shares are asked for.

    Returns:
        `edges`, of the parts of the first range and of the second one; `cells`, [share, lower, upper] of each, shape
        (first parts, second parts, 3); `margins`, the same of the parts of either range; `rectangles`, [its four ends,
        share, standard error, lower, upper] of each, where the error is that of the share without bias of people who
        are spread evenly within the cells it cuts. Errors and ends are None where the rows are hardly seen.
    """
    present, cells = float(1 - whole[-1]), np.eye(grid.n_cells)
    stated = whole[:-1] / present if present > 0 else np.full(grid.n_cells, 1 / grid.n_cells)
    each = cells.reshape(*grid.shape, -1)
    covered = [grid.covered(rectangle) for rectangle in rectangles]
    sets = [cells, each.sum(axis=1), each.sum(axis=0)]
    sets += [np.stack([getattr(one, name) for one in covered]) for name in ("wholly", "at_all", "evenly") if covered]
    found = shares_of_sets(oracle, frequencies, whole, n_responses, np.concatenate(sets))
    shares = np.concatenate(sets) @ stated
    errors, ends = np.full(len(shares), np.nan), np.full((len(shares), 2), np.nan)
    if found is not None:
        unbiased, errors = found
        half = NORMAL_95 * errors
        ends = np.clip(np.column_stack([unbiased - half, unbiased + half]), 0.0, 1.0)
        ends = np.column_stack([np.minimum(ends[:, 0], shares), np.maximum(ends[:, 1], shares)])
    known = np.column_stack([shares, ends, errors])
    of_cells, first, second, *of_rectangles = np.split(known, np.cumsum([len(one) for one in sets])[:-1])
    answers = []
    if of_rectangles:
        inner, outer, evenly = of_rectangles
        of_each = np.column_stack([evenly[:, [0, 3]], inner[:, 1], outer[:, 2]])
        answers = [[*rectangle, *_listed(one)] for rectangle, one in zip(rectangles, of_each, strict=True)]
    return {
        "edges": [side.edges.tolist() for side in grid.sides],
        "cells": [_listed(row) for row in of_cells[:, :3].reshape(*grid.shape, 3)],
        "margins": [_listed(first[:, :3]), _listed(second[:, :3])],
        "rectangles": answers,
    }, found is not None


def _listed(numbers: Floats) -> list[Any]:
    """Return an array as nested lists, None for what is not known."""
    found = numbers.astype(object)
    found[np.isnan(numbers)] = None
    listed: list[Any] = found.tolist()
    return listed
