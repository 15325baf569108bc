"""A file as strangers write it, what its owner declares of it, and what must come of it: a case of a table of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

NUMBER_OR_50 = 'a = { kind = "number", bounds = [0, 1000], missing = { value = 50 } }'
"""A rule for gaps under which a line that is no row would count."""


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        label: names the case; letters, digits and single spaces.
        content: the bytes of the file, or what writes it.
        outcome: column to its sum, where the file can be used; or words of the reason that the owner reads.
        columns: lines of `[tables.columns]`.
        source: further lines of `[tables.source]`.
        kind: of that section.
        file: the name of the file.
        warned: words of a warning of the doctor. None: not asked.
        drafted: words of what `table draft` writes; or, where it refuses the file too, of its reason. None: not asked.
    """

    label: str
    content: bytes | Callable[[Path], object]
    outcome: Mapping[str, float] | str
    columns: str = NUMBER_OR_50
    source: str = ""
    kind: str = "csv"
    file: str = "people.csv"
    drafted: str | None = None
    warned: str | None = None

    @property
    def table(self) -> str:
        """How jobs call its table."""
        return self.label.lower().replace(" ", "-")

    def write(self, folder: Path) -> Path:
        """Write the file to a folder of its own; return its path."""
        (folder / self.table).mkdir(parents=True)
        path = folder / self.table / self.file
        if callable(self.content):
            self.content(path)
        else:
            path.write_bytes(self.content)
        return path

    def sections(self, path: Path) -> str:
        """Return its sections of the configuration."""
        where = f'path = "{path}"' if self.kind != "query" else f'files = {{ people = "{path}" }}'
        return f'\n[tables.source]\nkind = "{self.kind}"\n{where}\n{self.source}\n\n[tables.columns]\n{self.columns}\n'
