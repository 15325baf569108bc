"""The names of all analyses, for configurations that name some: the registry imports everything that they need."""

NAMES = (
    "clustering",
    "distribution",
    "least-squares",
    "logistic-regression",
    "low-rank",
    "matrix-factorization",
    "moments",
    "pattern-count",
    "pca",
    "secure-histogram",
    "secure-mean",
    "secure-sum",
)
"""As in `analyses.registry.ANALYSES`; a test compares them."""
