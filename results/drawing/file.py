"""Pictures as files and in notebooks: SVG, and PNG of the same picture where the extra `plot` is installed."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from results.drawing.chart import Picture, PictureError
from results.drawing.svg import svg_of

ENDINGS = (".png", ".svg")
NEEDED = "a .png file needs vl-convert: pip install 'moiety[plot]'. An .svg file needs nothing"

_PIXELS = 2.0
"""Pixels of a PNG for each of the picture."""


@dataclass(frozen=True)
class Drawing:
    """A picture that a notebook shows.

    Attributes:
        picture: picture as data.
    """

    picture: Picture

    def _repr_svg_(self) -> str:
        return svg_of(self.picture)


def check(path: Path) -> None:
    """Refuse a file that no picture can be written to, before there is any.

    Raises:
        PictureError: its name says no format, what is needed for that is not installed, or there is no such folder.
    """
    if path.suffix.lower() not in ENDINGS:
        raise PictureError(f"{path}: a picture is a .png or an .svg file, so its name has to end in one of these")
    if path.suffix.lower() == ".png" and find_spec("vl_convert") is None:
        raise PictureError(NEEDED)
    if not path.parent.is_dir():
        raise PictureError(f"{path}: there is no folder {path.parent}")


def write(picture: Picture, path: Path) -> None:
    """Write a picture in the format that the ending of the file's name says.

    Raises:
        PictureError: see `check`.
        OSError: the file cannot be written.
    """
    check(path)
    if path.suffix.lower() == ".svg":
        path.write_text(svg_of(picture), encoding="utf-8")
        return
    from vl_convert import svg_to_png  # brings its own fonts: a machine without any draws the same

    path.write_bytes(svg_to_png(svg_of(picture), scale=_PIXELS))
