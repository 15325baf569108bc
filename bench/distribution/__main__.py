"""Measures estimates of distributions, and writes `docs/analyses/distribution-figures.md` and its pictures.

python -m bench.distribution                     all; a quarter of an hour of processor time
python -m bench.distribution --only "figure 3.5" a part; the others keep the numbers of their last run
python -m bench.distribution --render            none; page and pictures anew
python -m bench.distribution --quick             all, of few values, to see that it runs; writes nothing

What a part measured is kept in `bench/results/distribution.json`. Responses come from fixed keys, so that the errors of
a part are the same in every run; those of masked sums are not, and neither are seconds.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench.distribution import figures, numbers
from bench.distribution.figures import Setting
from bench.distribution.numbers import Number
from bench.distribution.page import page
from bench.distribution.picture import draw_pictures
from bench.distribution.samples import SAMPLES
from bench.machine import describe_machine

RESULTS = Path(__file__).parent.parent / "results" / "distribution.json"
DOCS = Path(__file__).parent.parent.parent / "docs"

One = TypeVar("One")

Part = Callable[[bool], Iterator[Setting] | Iterator[Number]]

PARTS: dict[str, Part] = {
    **{f"figures 3.2-3.4, {name}": partial(figures.distances_and_statistics, s) for name, s in SAMPLES.items()},
    **{f"as many as the source, {name}": partial(figures.at_the_sources_n, name) for name in figures.SOURCES_N},
    "figure 3.5": figures.shapes,
    "figure 3.6": figures.widths,
    "figure 3.7": figures.numbers_of_buckets,
    "taxi, automatic smoothing": numbers.automatic,
    "speed": numbers.speed,
}


def run(part: Part, quick: bool) -> dict[str, Any]:
    """Measure one part; return what is kept of it: as of `kept_part`, and settings and numbers."""
    kept, found = kept_part(partial(part, quick))
    return {
        **kept,
        "settings": [one.as_json() for one in found if isinstance(one, Setting)],
        "numbers": [one.as_json() for one in found if isinstance(one, Number)],
    }


def kept_part(part: Callable[[], Iterator[One]]) -> tuple[dict[str, Any], list[One]]:
    """Measure one part; return date, machine and seconds of one thread, and what it yielded."""
    started_s = time.process_time()
    found = list(part())
    seconds = time.process_time() - started_s
    return {"date": time.strftime("%Y-%m-%d"), "machine": describe_machine(), "seconds": seconds}, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, and write page and pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given several times")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--render", action="store_true", help="measure nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of what is kept")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where analyses/ and images/ are")
    options = parser.parse_args(arguments)
    for name in [] if options.render else options.only or PARTS:
        result = run(PARTS[name], options.quick)
        sys.stderr.write(f"{name}: {result['seconds']:.0f} s of processor time\n")
        if options.quick:
            print(json.dumps({"part": name, **result}))
            continue
        kept = json.loads(options.results.read_text()) if options.results.exists() else {}
        options.results.write_text(json.dumps({**kept, name: result}, indent=1) + "\n")
    if not options.quick:
        kept = json.loads(options.results.read_text())
        (options.docs / "analyses" / "distribution-figures.md").write_text(page(kept))
        draw_pictures(options.docs / "images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
