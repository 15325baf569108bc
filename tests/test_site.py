"""The pages of the site that follow from the code say something of everything; `make site` builds them."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from analyses.job.job import Job
from analyses.registry import OFFERED
from cli.main import SUBCOMMANDS

GENERATORS = Path(__file__).parent.parent / "docs" / "site"


@pytest.fixture(scope="module")
def generator():
    """Import a module that writes pages, as mkdocs does: from its own folder."""

    def imported(name: str) -> ModuleType:
        sys.path.insert(0, str(GENERATORS))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(GENERATORS))

    return imported


def test_every_field_of_every_file_is_explained(generator):
    models = generator("models")
    tops = [model for _, _, model in generator("configuration").FILES] + [one.parameters for one in OFFERED] + [Job]
    every = {inner for top in tops for _, inner in models.models_in(top)} | set(tops)
    silent = [
        f"{model.__name__}.{name}"
        for model in every
        for name in model.model_fields
        if not models.described_attributes(model).get(name)
    ]
    assert silent == []
    assert len(every) > 30


def test_fields_are_shown_with_their_words_values_and_defaults(generator):
    class Section(BaseModel):
        """A section.

        Attributes:
            first, second: two numbers
                in two lines.
            third: a choice.
        """

        first: int
        second: float = 2.5
        third: bool = False

    assert generator("models").fields_of(Section)[2:] == [
        "| `first` | two numbers in two lines. | whole number | required |",
        "| `second` | two numbers in two lines. | number | `2.5` |",
        "| `third` | a choice. | `true` or `false` | `false` |",
        "",
    ]


def test_every_command_and_option_is_listed(generator):
    page = generator("command_options").command_reference()
    assert [name for name in SUBCOMMANDS if f"## `moiety {name}`\n" not in page] == []
    assert "* `--noted &lt;str>`" not in page
    assert "* `--noted <str>`: A head that `moiety budget show` printed earlier" in page
