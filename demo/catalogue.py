"""The demos of analyses: what each command of `moiety demo` is called, what it says of itself and what it can change.

A demo runs the example of its name (`examples/NAME.toml`) over services. Its module in `demo/analyses/`, imported when
it runs, has `compare(run)`, which returns what the demo shows, a dataclass that JSON can hold, and `text_of`, which
makes it text for people.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any


class MomentMethod(StrEnum):
    """How low-rank approximation and least squares get their second moments."""

    MPC = "mpc"
    SKETCH = "sketch"


@dataclass(frozen=True)
class Option:
    """An option of a demo.

    Attributes:
        name: of the option, without dashes.
        kind: type of its value.
        help: what `--help` says.
        field: of the job, that it changes; empty where it is an argument of `compare` by its name.
        default: its value where it is absent; None leaves the example's.
        limits: the least and the largest value of a number.
    """

    name: str
    kind: type | UnionType
    help: str
    field: str = ""
    default: Any = None
    limits: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True)
class Demo:
    """One demo of an analysis.

    Attributes:
        name: of the command, and of the example that it runs.
        help: what `--help` says.
        options: beside those that every demo has.
    """

    name: str
    help: str
    options: tuple[Option, ...]

    @property
    def module(self) -> str:
        """The module with `compare` and `text_of`."""
        return f"demo.analyses.{self.name.replace('-', '_')}"


EPSILON = Option("epsilon", float, "Privacy: smaller is more private.", "privacy.epsilon")
MOMENTS = Option("method", MomentMethod, "Under shares, or the form of the paper.", "parameters.method")

PCA = Demo(
    "pca",
    "Private PCA of network connections of which three parties each hold some columns.",
    (
        Option(
            "components",
            int,
            "k, how many principal components.",
            "parameters.components",
            default=5,
            limits=(1, 118),
        ),
        Option("epsilon", float, "Privacy: smaller is more private.", "privacy.epsilon", default=1.0),
        Option(
            "delta",
            float,
            "Privacy: the probability left aside; below 1 / rows.",
            "privacy.delta",
            default=1e-6,
        ),
        Option("out", Path, "Folder for the plot and the JSON.", default=Path("demo-results")),
    ),
)

DEMOS = (
    Demo(
        "clustering",
        "Kinds of network connections, from columns of three parties.",
        (Option("k", int, "How many clusters.", "parameters.k", limits=(1, 100)), EPSILON),
    ),
    Demo(
        "low-rank",
        "The subspace that keeps most of a table of which three parties each hold some columns.",
        (
            Option("rank", int, "k, dimensions of the subspace.", "parameters.rank", limits=(1, 117)),
            MOMENTS,
            EPSILON,
        ),
    ),
    Demo(
        "least-squares",
        "Linear regression of a column of one party on those of all three.",
        (MOMENTS, EPSILON),
    ),
    Demo(
        "logistic-regression",
        "Which network connections are attacks, from columns of three parties of which one knows the label.",
        (EPSILON,),
    ),
    Demo(
        "pattern-count",
        "How many network connections have each combination of categories that three parties know one of.",
        (
            Option(
                "method",
                str,
                "mpc, randomized-response, or subsampled, which needs --share.",
                "parameters.method",
            ),
            Option("share", float, "Of the rows that are reported; with method subsampled.", "parameters.share"),
            EPSILON,
        ),
    ),
    Demo(
        "moments",
        "A moment of incidents per network connection, of which three parties each count some.",
        (
            Option("method", str, "mpc; sketch for order 2; laplace for order 1.", "parameters.method"),
            Option("order", int, "p: powers of what a row's counts add up to.", "parameters.order"),
            EPSILON,
        ),
    ),
    Demo(
        "distribution",
        "How ages are distributed over the residents of three towns: by randomized responses, and by a masked sum.",
        (
            EPSILON,
            Option("buckets", int, "Parts of the range of ages.", "parameters.buckets", limits=(2, 1024)),
            Option("out", Path, "Folder for the plot and the JSON.", default=Path("demo-results")),
        ),
    ),
    Demo(
        "matrix-factorization",
        "Which lecturers a student would rate highly, from the ratings that three halls keep of their own students.",
        (
            EPSILON,
            Option("rank", int, "p, length of an item's vector; 0: offsets alone.", "parameters.rank", limits=(0, 64)),
            Option("out", Path, "Folder for the plot and the JSON.", default=Path("demo-results")),
        ),
    ),
)
"""In the order in which they are listed; PCA, the first to try, stands apart."""
