"""Measures principal components as [SPCA24] does, and writes `docs/analyses/pca-figures.md`.

python -m bench.pca_figures                      all; an hour of processor time
python -m bench.pca_figures --only "KDD Cup 99"  a part; the others keep the numbers of their last run
python -m bench.pca_figures --render             none; the page anew

What a part measured is kept in `bench/results/pca_figures.json`. CiteSeer, genes and employment are measured where
MOIETY_DATA names a folder that holds them. Our noise is never the same twice; that of others comes from a fixed seed.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.distribution.__main__ import DOCS, RESULTS, kept_part
from bench.pca_figures.measured import Point, figure_1, figure_2, parties
from bench.pca_figures.page import page
from bench.pca_figures.picture import SHOWN, picture
from bench.pca_figures.regression import TABLES, figure_3
from bench.pca_figures.sources import SOURCES

KEPT = RESULTS.with_name("pca_figures.json")

PARTS: dict[str, Callable[[], Iterator[Point]]] = {
    **{name: partial(figure_1, name, source) for name, source in SOURCES.items()},
    "figure 2": figure_2,
    "figure 2, private": partial(picture, rows=SHOWN, path=DOCS / "images" / "pca-scores.png"),
    **{
        f"figure 3, {name}, epsilon {epsilon:g}": partial(figure_3, name, epsilon)
        for name, census in TABLES.items()
        for epsilon in census.epsilons
    },
    "parties": parties,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--results", type=Path, default=KEPT, help="file of what is kept")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where analyses/ is")
    options = parser.parse_args(arguments)
    for name in [] if options.render else options.only or PARTS:
        part, points = kept_part(PARTS[name])
        sys.stderr.write(f"{name}: {part['seconds']:.0f} s of processor time\n")
        kept = json.loads(options.results.read_text()) if options.results.exists() else {}
        added = {**kept, name: {**part, "points": [one.as_json() for one in points]}}
        options.results.write_text(json.dumps(added, indent=1) + "\n")
    kept = json.loads(options.results.read_text())
    (options.docs / "analyses" / "pca-figures.md").write_text(
        page({name: kept[name] for name in PARTS if name in kept})
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
