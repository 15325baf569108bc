"""Pictures as files: SVG, and PNG where matplotlib is installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

from analyses.drawing.chart import Picture, PictureError
from analyses.drawing.svg import svg_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg")
NEEDED = "drawing this needs matplotlib: pip install 'moiety[plot]'. An .svg file needs nothing"


def check(path: Path) -> None:
    """Refuse a file that no picture can be written to, before there is any.

    Raises:
        PictureError: its name says no format, what is needed for that is not installed, or there is no such folder.
    """
    if path.suffix.lower() not in ENDINGS:
        raise PictureError(f"{path}: a picture is a .png or an .svg file, so its name has to end in one of these")
    if path.suffix.lower() == ".png" and find_spec("matplotlib") is None:
        raise PictureError(NEEDED)
    if not path.parent.is_dir():
        raise PictureError(f"{path}: there is no folder {path.parent}")


def write(picture: Picture, path: Path) -> None:
    """Write a picture in the format that the ending of the file's name says.

    Raises:
        PictureError: as `check`.
        OSError: the file cannot be written.
    """
    check(path)
    if path.suffix.lower() == ".svg":
        path.write_text(svg_of(picture), encoding="utf-8")
    else:
        with catch_warnings():
            filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # a box then stands for the letter
            figure_of(picture).savefig(path, format="png")


def figure_of(picture: Picture) -> "Figure":
    """Return a picture as a figure of matplotlib.

    Raises:
        PictureError: matplotlib is not installed.
    """
    try:
        from analyses.drawing.figure import figure_of
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise PictureError(NEEDED) from error
    return figure_of(picture)
