"""What an analyst's program imports from Moiety. `moiety.v1` is code generated from the .proto files (`make proto`).

Names are imported when they are first used, so that services, which import `moiety.v1` only, load nothing else.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyst.client import AsyncClient, Client, JobFailedError, JobPlan
    from analyst.question import (
        PCA,
        Clustering,
        Distribution,
        LeastSquares,
        LogisticRegression,
        LowRank,
        MatrixFactorization,
        Moments,
        PatternCount,
        SecureHistogram,
        SecureMean,
        SecureSum,
    )
    from analyst.results.result import Result
    from demo.tutorial import LocalFederation, Table, local_federation

_MODULES = {
    "analyst.client": ("AsyncClient", "Client", "JobFailedError", "JobPlan"),
    "analyst.question": (
        "PCA",
        "Clustering",
        "Distribution",
        "LeastSquares",
        "LogisticRegression",
        "LowRank",
        "MatrixFactorization",
        "Moments",
        "PatternCount",
        "SecureHistogram",
        "SecureMean",
        "SecureSum",
    ),
    "analyst.results.result": ("Result",),
    "demo.tutorial": ("LocalFederation", "Table", "local_federation"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "PCA",
    "AsyncClient",
    "Client",
    "Clustering",
    "Distribution",
    "JobFailedError",
    "JobPlan",
    "LeastSquares",
    "LocalFederation",
    "LogisticRegression",
    "LowRank",
    "MatrixFactorization",
    "Moments",
    "PatternCount",
    "Result",
    "SecureHistogram",
    "SecureMean",
    "SecureSum",
    "Table",
    "local_federation",
]


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
