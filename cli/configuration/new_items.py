"""The option of `recommend` that names a file of new items, which are recommended by their features alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from analyses.matrix_factorization.serving.new_items import NewItems

MAX_NEW_ITEMS = 1 << 20

NewItemsFile = Annotated[
    Path | None,
    typer.Option("--new", help="Items that the model does not know, one on each line: a name, then its features."),
]


def new_items(path: Path | None) -> "NewItems | None":
    """Return the items in a file; None for none.

    Raises:
        TextFileError: it cannot be read, or a line is blank.
        ValueError: a line is not a name and numbers, between commas.
    """
    if path is None:
        return None
    from analyses.matrix_factorization.serving.new_items import NewItems
    from service.files.name_list import read_names

    return NewItems.of_lines(read_names(path, MAX_NEW_ITEMS))
