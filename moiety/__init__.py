"""Names that an analyst's program imports from Moiety. Each is loaded when it is first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyst.client import AsyncClient, Client, JobFailedError
    from analyst.planning import JobPlan
    from analyst.question import (
        PCA,
        Circuit,
        Clustering,
        CrossTable,
        Distribution,
        JointCount,
        JointMean,
        JointSum,
        LeastSquares,
        LogisticRegression,
        LowRank,
        MatrixFactorization,
        Moments,
        PatternCount,
        SecondMoments,
        SecureHistogram,
        SecureMean,
        SecureSum,
    )
    from demo.tutorial import LocalFederation, Table, local_federation
    from results.generic.result import Result
    from results.saved import load

_MODULES = {
    "analyst.client": ("AsyncClient", "Client", "JobFailedError"),
    "analyst.planning": ("JobPlan",),
    "analyst.question": (
        "PCA",
        "Circuit",
        "Clustering",
        "CrossTable",
        "Distribution",
        "JointCount",
        "JointMean",
        "JointSum",
        "LeastSquares",
        "LogisticRegression",
        "LowRank",
        "MatrixFactorization",
        "Moments",
        "PatternCount",
        "SecondMoments",
        "SecureHistogram",
        "SecureMean",
        "SecureSum",
    ),
    "results.generic.result": ("Result",),
    "results.saved": ("load",),
    "demo.tutorial": ("LocalFederation", "Table", "local_federation"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "PCA",
    "AsyncClient",
    "Circuit",
    "Client",
    "Clustering",
    "CrossTable",
    "Distribution",
    "JobFailedError",
    "JobPlan",
    "JointCount",
    "JointMean",
    "JointSum",
    "LeastSquares",
    "LocalFederation",
    "LogisticRegression",
    "LowRank",
    "MatrixFactorization",
    "Moments",
    "PatternCount",
    "Result",
    "SecondMoments",
    "SecureHistogram",
    "SecureMean",
    "SecureSum",
    "Table",
    "load",
    "local_federation",
]


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
