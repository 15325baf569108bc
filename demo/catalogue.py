"""The demos of analyses: what each command of `moiety demo` is called, what it says of itself and what it can change.

A demo runs an example (`examples/NAME.toml`) over services; `demo.comparison` scores what it found. Nothing here is
imported that computes: the command line reads it before it knows which demo is asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Option:
    """An option of a demo that changes its job.

    Attributes:
        name: name of the option, without dashes.
        kind: type of its value.
        help: what `--help` says.
        field: field of the job; absent options leave the example's value.
        limits: the least and the largest value of a number.
        title: title of the job where the option is given, with `{}` for its value; empty where it stays.
    """

    name: str
    kind: type
    help: str
    field: str
    limits: tuple[int | None, int | None] = (None, None)
    title: str = ""


@dataclass(frozen=True)
class Method:
    """A method of an analysis, as its demo asks for it.

    Attributes:
        changes: field of the job to its value.
        example: another example than that of the demo.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    example: str = ""


@dataclass(frozen=True)
class Demo:
    """One demo of an analysis.

    Attributes:
        name: name of the command, and of the example that it runs.
        help: what `--help` says.
        next: an option and a value of it to try next, and what it answers.
        options: beside those that every demo has.
        methods: every method of the analysis by its name, the example's first; none where it has one way only.
    """

    name: str
    help: str
    next: tuple[str, Any, str]
    options: tuple[Option, ...] = ()
    methods: Mapping[str, Method] = field(default_factory=dict)

    def example(self, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the example to run, and what to change in it: field to value.

        Args:
            given: option to its value; None where it is absent.
        """
        method = Method() if given.get("method") is None else self.methods[given["method"]]
        asked = {option.field: given.get(option.name) for option in (*COMMON, *self.options)}
        titled = [option for option in self.options if option.title and given.get(option.name) is not None]
        titles = [("title", option.title.format(given[option.name])) for option in titled]
        changes = {
            **method.changes,
            **dict(titles),
            **{path: value for path, value in asked.items() if value is not None},
        }
        return method.example or self.name, changes


def methods_of(field: str, names: str, needed: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Method]:
    """Return methods that one field of the job names.

    Args:
        field: such as `parameters.method`.
        names: separated by spaces, the example's first.
        needed: name to what else a job must say for it.
    """
    return {name: Method({field: name, **(needed or {}).get(name, {})}) for name in names.split()}


COMMON = (
    Option("epsilon", float, "Privacy: smaller is more private.", "privacy.epsilon"),
    Option("delta", float, "Privacy: the probability left aside; below 1 / rows.", "privacy.delta"),
)
"""Options of every demo."""

SEEN_AT = "privacy.epsilon"
"""Field of a method's own default: an epsilon at which its answer can be seen in its noise on the demo's tables."""

MOMENT_OF_ORDER = "Moment of order {} of incidents per connection"
BINS = {"parameters.bins": 16}
TEN_TIMES = "ten times more private: what does it cost?"
PAPERS_FORM = ("method", "sketch", "the form of the paper: what does it cost?")

DEMOS = (
    Demo(
        "pca",
        "Private PCA of network connections of which three parties each hold some columns.",
        ("epsilon", 0.05, "twenty times more private: what does it cost?"),
        (Option("components", int, "k, how many principal components.", "parameters.components", (1, 118)),),
    ),
    Demo(
        "clustering",
        "Kinds of network connections, from columns of three parties.",
        ("epsilon", 0.1, TEN_TIMES),
        (Option("k", int, "How many clusters.", "parameters.k", (1, 100)),),
        methods_of(
            "parameters.counting",
            "mpc independent ldp pattern fm-sketch",
            {
                "pattern": {SEEN_AT: 4.0},
                "fm-sketch": {
                    "parameters.counting_options": {"accept_no_protection_against_parties": True},
                    "privacy.view": "coordinator",
                },
            },
        ),
    ),
    Demo(
        "low-rank",
        "The subspace that keeps most of a table of which three parties each hold some columns.",
        PAPERS_FORM,
        (Option("rank", int, "k, dimensions of the subspace.", "parameters.rank", (1, 117)),),
        methods_of("parameters.method", "mpc sketch", {"sketch": {SEEN_AT: 8.0}}),
    ),
    Demo(
        "second-moments",
        "Second moments of columns of three parties, released once and asked again for nothing.",
        ("epsilon", 0.1, TEN_TIMES),
    ),
    Demo(
        "least-squares",
        "Linear regression of a column of one party on those of all three.",
        ("epsilon", 0.1, TEN_TIMES),
        methods=methods_of("parameters.method", "mpc sketch", {"sketch": {SEEN_AT: 32.0}}),
    ),
    Demo(
        "logistic-regression",
        "Which network connections are attacks, from columns of three parties of which one knows the label.",
        ("epsilon", 0.2, TEN_TIMES),
        methods=methods_of("parameters.method", "moments gradient"),
    ),
    Demo(
        "pattern-count",
        "How many network connections have each combination of categories that three parties know one of.",
        ("method", "randomized-response", "each party reports its own rows: what does it cost?"),
        (Option("share", float, "Fraction of the rows that is reported; method subsampled.", "parameters.share"),),
        methods_of(
            "parameters.method",
            "mpc randomized-response subsampled",
            {"randomized-response": {SEEN_AT: 8.0}, "subsampled": {"parameters.share": 0.25, SEEN_AT: 16.0}},
        ),
    ),
    Demo(
        "joint-mean",
        "Means, or sums, of columns of network connections that three parties hold, or how many there are.",
        ("epsilon", 0.1, TEN_TIMES),
        methods={"mean": Method(), "sum": Method(example="joint-sum"), "count": Method(example="joint-count")},
    ),
    Demo(
        "scorecard",
        "A program of your own: points for network connections from columns of three parties, and who has many.",
        ("epsilon", 0.1, TEN_TIMES),
    ),
    Demo(
        "moments",
        "A moment of incidents per network connection, of which three parties each count some.",
        ("epsilon", 0.1, TEN_TIMES),
        (
            Option(
                "order", int, "p: powers of what a row's counts add up to.", "parameters.order", title=MOMENT_OF_ORDER
            ),
            Option("threshold", int, "Largest sum that is counted; method threshold.", "parameters.threshold"),
        ),
        methods_of(
            "parameters.method",
            "mpc sketch laplace threshold",
            {
                "sketch": {SEEN_AT: 4.0},
                "laplace": {"parameters.order": 1, "title": MOMENT_OF_ORDER.format(1)},
                "threshold": {"parameters.threshold": 24, SEEN_AT: 8.0},
            },
        ),
    ),
    Demo(
        "distribution",
        "How ages are distributed over the residents of three towns.",
        ("method", "masked", "counts added up under masks: how much closer?"),
        (Option("buckets", int, "Parts of the range of ages.", "parameters.buckets", (2, 1024)),),
        {
            **methods_of(
                "parameters.method",
                "wave trapezoid triangle piecewise sign bins direct hashed hadamard tree haar prefixes masked",
                {
                    **dict.fromkeys(("bins", "direct", "hashed", "hadamard"), BINS),
                    **{name: {"parameters.queries": []} for name in ("sign", "prefixes")},
                },
            ),
            "grid": Method(example="distribution-grid"),
        },
    ),
    Demo(
        "matrix-factorization",
        "Which lecturers a student would rate highly, from the ratings that three halls or departments keep.",
        ("method", "sgd", "gradient descent, the form of the paper: what does it cost?"),
        (Option("rank", int, "p, length of an item's vector; 0: offsets alone.", "parameters.rank", (0, 64)),),
        {
            "statistics": Method(),
            "sgd": Method(example="matrix-factorization-sgd"),
            "statistics-vertical": Method(example="matrix-factorization-vertical"),
            "sgd-vertical": Method(example="matrix-factorization-sgd-vertical"),
        },
    ),
)
"""In the order in which they are listed; the first to try first."""
