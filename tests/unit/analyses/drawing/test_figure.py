"""Figures of matplotlib: the same marks as in the SVG, and labels that do not overlap."""

from dataclasses import replace

import numpy as np
import pytest

from analyses.drawing.chart import Cells, Picture, Rows, Spectrum, Steps
from analyses.drawing.figure import figure_of

LONG = tuple(f"hospital.{'very_' * 12}long_{at}" for at in range(25))
PANELS = {
    "rows": Rows(title="Sums", axis="sum", labels=LONG, values=(1.0,) * 25, intervals=((0.5, 1.5),) * 25),
    "bars": Rows(title="Sums", axis="sum", labels=("$a^{", "b_"), values=(1.0, -2.0), has_bars=True),
    "spectrum": Spectrum(title="S", axis="v", values=(8.0, 4.0, -1.0), edge=2.0, n_kept=1),
    "all": Spectrum(
        title="Variance of the principal components",
        axis="variance",
        values=tuple(0.7**at for at in range(20)),
        estimates=(0.9,),
        intervals=((0.8, 1.0),),
        edge=0.01,
        n_kept=5,
        exact=(0.9,) * 20,
    ),
    "beside": Spectrum(
        title="S", axis="v", values=(8.0,), estimates=(7.0,), intervals=((6.0, 8.0),), edge=2.0, n_kept=1, exact=(7.0,)
    ),
    "steps": Steps(title="Bins", axis="x", height="rows", edges=(0, 1, 2), values=(2, 3), intervals=((1, 3), (2, 4))),
    "band": Steps(
        title="Bins", axis="x", height="y", edges=tuple(range(101)), values=(1,) * 100, intervals=((0, 2),) * 100
    ),
    "cells": Cells(title="Centres", labels=LONG, heads=("a\n1 rows", "b\n2 rows"), values=((1.0, 2.0),) * 25),
}


def boxes(texts, renderer):
    return [text.get_window_extent(renderer) for text in texts if text.get_text() and text.get_visible()]


@pytest.mark.parametrize("name", PANELS)
def test_labels_of_ticks_lie_in_the_figure_and_do_not_overlap(name):
    figure = figure_of(Picture((PANELS[name],), "A heading with $ in it"))
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    (axes,) = figure.axes
    assert axes.get_window_extent(renderer).width > (0.4 if name in ("rows", "cells") else 0.5) * figure.bbox.width
    for axis in (axes.xaxis, axes.yaxis):
        found = boxes(axis.get_ticklabels(), renderer)
        assert found
        assert not any(one.overlaps(other) for at, one in enumerate(found) for other in found[:at])
        assert all(one.x0 >= -1 and one.y0 >= -1 for one in found)
        assert all(one.x1 <= figure.bbox.x1 + 1 and one.y1 <= figure.bbox.y1 + 1 for one in found)


def image_of(panel):
    figure = figure_of(Picture((panel,)))
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())


CHANGES = {
    "beside": {"edge": 3.0, "estimates": (6.5,), "intervals": ((5.0, 8.0),), "exact": (), "n_kept": 0},
    "steps": {"values": (2, 1), "intervals": (), "exact": (1, 1)},
    "bars": {"values": (1.0, -1.0), "intervals": ((0.0, 2.0), (-3.0, -1.0)), "has_bars": False},
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, of in CHANGES.items() for field in of])
def test_whatever_a_panel_says_is_drawn(name, field):
    usual = image_of(PANELS[name])
    changed = image_of(replace(PANELS[name], **{field: CHANGES[name][field]}))
    assert usual.shape == changed.shape
    assert not np.array_equal(usual, changed)
