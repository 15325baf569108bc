"""The names of all analyses, for configurations that name some: the registry imports everything that they need."""

NAMES = (
    "circuit",
    "clustering",
    "cross-table",
    "distribution",
    "joint-count",
    "joint-mean",
    "joint-sum",
    "least-squares",
    "logistic-regression",
    "low-rank",
    "matrix-factorization",
    "moments",
    "pattern-count",
    "pca",
    "second-moments",
    "secure-histogram",
    "secure-mean",
    "secure-sum",
)
"""Names in `analyses.registry.ANALYSES`; a test compares them."""
