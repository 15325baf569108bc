"""The catalogue of errors: of each code what it means, its likely cause, the fix. Only the standard library is needed.

The files in `catalogue/` are the catalogue: `moiety explain` prints from them, and the site shows them on one page. A
test compares them with the codes that the program uses.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Explanation:
    """What is said of one code, in sentences.

    Attributes:
        code: code as printed at the end of texts.
        means: what the error says.
        cause: what is likely behind it.
        fix: what can be done.
    """

    code: str
    means: str
    cause: str
    fix: str

    def lines(self) -> list[str]:
        """Return it as lines for a terminal."""
        return [self.code, f"  means  {self.means}", f"  cause  {self.cause}", f"  fix    {self.fix}"]


def catalogue() -> dict[str, list[Explanation]]:
    """Return all explanations: title of a group to those of the group, in the order of the files."""
    folder = files("service.codes").joinpath("catalogue")
    groups = {}
    for path in sorted(folder.iterdir(), key=lambda one: one.name):
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        title = tree.pop("title")
        groups[title] = [Explanation(code, **said) for code, said in tree.items()]
    return groups


def explanation_of(code: str) -> Explanation | None:
    """Return what is said of a code; None where there is no such code."""
    every = (one for group in catalogue().values() for one in group)
    return next((one for one in every if one.code == code), None)
