"""The figures of [VertClust23] that the pages of clustering and its countings do not show, and what they claim."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.analyses.clustering_figures import counts, ends
from bench.analyses.clustering_figures.said import verdicts
from bench.analyses.table import Row

__all__ = ["parts", "verdicts"]


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    names = ("mixed Gaussian", "taxi", "letter", "loans")
    return {
        "uneven splits": ends.uneven,
        **{f"{n} owners": partial(ends.owners, n) for n in (2, 4, 8, 16)},
        **{f"{n} owners, rivals": partial(ends.rivals_of_many, n) for n in (8, 16)},
        **{f"private parts, {name}": partial(ends.components, name) for name in names[:3]},
        **{f"local clusters, {name}": partial(ends.local_clusters, name) for name in names},
        "other k": ends.other_k,
        "central rivals": ends.rivals,
        "counts on real data": counts.real,
        "number of sketches": counts.sketches,
        "bytes and seconds": counts.costs,
        "silhouettes": counts.silhouettes,
    }
