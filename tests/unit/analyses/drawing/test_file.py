import builtins
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from analyses.drawing import file
from analyses.drawing.chart import Picture, PictureError, Rows
from analyses.drawing.file import check, figure_of, write

PICTURE = Picture((Rows(title="Sums", axis="sum", labels=("a",), values=(1.0,)),))


@pytest.mark.parametrize("name", ["plot.png", "plot.PNG", "plot.svg", "plot.Svg"])
def test_the_ending_says_the_format(name, tmp_path):
    write(PICTURE, tmp_path / name)
    start = (tmp_path / name).read_bytes()[:4]
    assert start == (b"<svg" if "s" in name.lower()[5:] and "svg" in name.lower() else b"\x89PNG")


@pytest.mark.parametrize("name", ["plot", "plot.jpg", "plot.svg.gz", ".svg"])
def test_another_ending_is_refused_and_those_that_there_are_are_named(name, tmp_path):
    with pytest.raises(PictureError, match=r"a picture is a \.png or an \.svg file"):
        write(PICTURE, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_named():
    with pytest.raises(PictureError, match="there is no folder nowhere"):
        check(Path("nowhere/plot.svg"))


def test_without_matplotlib_it_is_said_what_to_install_and_svg_works(tmp_path, monkeypatch):
    really = builtins.__import__

    def without(name, *arguments, **more):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return really(name, *arguments, **more)

    monkeypatch.delitem(sys.modules, "analyses.drawing.figure", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(file, "find_spec", lambda name: None)
    write(PICTURE, tmp_path / "plot.svg")
    for draw in (lambda: write(PICTURE, tmp_path / "plot.png"), lambda: figure_of(PICTURE)):
        with pytest.raises(PictureError, match=r"pip install 'moiety\[plot\]'"):
            draw()


def test_a_figure_is_shown_by_a_notebook_as_a_png(tmp_path):
    (tmp_path / "shown.png").write_bytes(figure_of(PICTURE)._repr_png_())
    assert imread(tmp_path / "shown.png").ndim == 3
