"""Draws the pictures of the pages: an estimated density beside that of the masked sum with its intervals."""

from pathlib import Path

from bench.distribution.methods import MASKED, run_job
from bench.distribution.samples import INCOME, SAMPLES, TAXI, inputs_of, share
from results.drawing.chart import Picture
from results.drawing.file import write
from results.kinds.distribution import density_of

EPSILON = 1.0
N_BUCKETS = 256

_OF_PICTURES = {
    "distribution-taxi": (TAXI, "pick-up time of taxis in hours", 24.0),
    "distribution-income": (INCOME, "income in thousands of dollars", (1 << 19) / 1000),
}
"""File name to sample, quantity, and upper end of its range."""

CAPTIONS = {
    name: f"{quantity}: density at epsilon {EPSILON:g}, from responses, and from a masked sum with 95 % intervals"
    for name, (_, quantity, _) in _OF_PICTURES.items()
}
"""File name to what the picture shows."""


def draw_pictures(folder: Path) -> None:
    """Run the job of each picture by both methods, all members in this process, and draw them as PNGs."""
    for name, (of_sample, quantity, upper) in _OF_PICTURES.items():
        values = SAMPLES[of_sample].draw(0)
        results = {}
        for way, method in (("randomized responses", "wave"), ("masked sum", MASKED)):
            result = run_job(method, values, N_BUCKETS, EPSILON)
            results[way] = {**result, "edges": [upper * edge for edge in result["edges"]]}
        exact = share(inputs_of(values, N_BUCKETS), N_BUCKETS)
        panels = [
            density_of(result, title=label, axis=quantity, exact=exact.tolist()) for label, result in results.items()
        ]
        write(Picture(tuple(panels)), folder / f"{name}.png")
