from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from results.drawing import file
from results.drawing.chart import Picture, PictureError, Rows
from results.drawing.file import Drawing, check, write
from results.drawing.svg import svg_of

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


def test_without_the_extra_it_is_said_what_to_install_and_svg_works(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "find_spec", lambda name: None)
    write(PICTURE, tmp_path / "plot.svg")
    with pytest.raises(PictureError, match=r"pip install 'moiety\[plot\]'"):
        write(PICTURE, tmp_path / "plot.png")


def test_a_png_has_two_pixels_for_each_of_the_svg_and_its_letters(tmp_path):
    write(PICTURE, tmp_path / "plot.png")
    height, width, _ = (image := imread(tmp_path / "plot.png")).shape
    root = ElementTree.fromstring(svg_of(PICTURE))
    assert (width, height) == (2 * float(root.get("width")), 2 * float(root.get("height")))
    assert (image[:60, :200, :3] < 0.5).any()  # the title, though this machine may have no fonts


def test_a_notebook_shows_a_drawing_as_svg():
    assert Drawing(PICTURE)._repr_svg_() == svg_of(PICTURE)
