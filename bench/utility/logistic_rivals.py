"""Logistic regression beside what somebody who holds all tables could do, at equal epsilon: area under the curve (AUC).

    python -m bench.utility.logistic_rivals --only adult --epsilons 1 --runs 5

All rows show the coordinator's view, adding or removing one record, delta 1e-5, on the same public bounds and norms.
Nothing is tuned to a table: ours has its defaults, the rivals one setting each. diffprivlib, which has pure epsilon, is
installed in an environment of its own the first time.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from analyses.job.schema import Table
from analyses.logistic_regression.plan import plan
from analyses.logistic_regression.protocol import scaled_rows
from bench.analyses.logistic_regression import released_weights
from bench.baselines.gaussian import analytic_gaussian_sigma
from bench.baselines.logistic import Floats, dp_sgd_weights, exact_weights
from bench.datasets.labelled_tables import MIN_ROWS, LabelledTables, adult, california, earnings, nsl_kdd
from bench.datasets.small_tables import benign_tumours, high_digits
from bench.peers.environment import PROGRAMS, PeerUnavailableError, ensure_environment, run_to_its_end
from bench.utility.logistic_moments import exact_gram, own_scores, released_moment_weights

REQUIREMENTS = ("diffprivlib==0.6.6", "numpy==2.4.6", "scikit-learn==1.6.1")


def held_out_attacks() -> LabelledTables:
    """Return NSL-KDD's training rows, of which a quarter is kept for testing: the same attacks in both."""
    data = nsl_kdd()
    order = np.random.default_rng(0).permutation(data.training[0].n_rows)
    cut = len(order) * 3 // 4
    parts = []
    for chosen in (order[:cut], order[cut:]):
        schemas = [t.schema.model_copy(update={"rows": (MIN_ROWS, len(chosen))}) for t in data.training]
        parts.append([Table(s, t.values[chosen]) for s, t in zip(schemas, data.training, strict=True)])
    return LabelledTables(data.name, data.label, data.norm_bounds, *parts)


TABLES: Mapping[str, Callable[[], LabelledTables]] = {
    "adult": adult,
    "nsl-kdd": held_out_attacks,
    "nsl-kdd, other attacks": nsl_kdd,
    "california": california,
    "earnings": earnings,
    "breast tumours": benign_tumours,
    "digits, 5 and more": high_digits,
}
DELTA = 1e-5
BATCHES: Mapping[str, Any] = {"sampling_rate": 0.05, "iterations": 200, "learning_rate": 0.1, "optimiser": "adam"}
FULL: Mapping[str, Any] = {"sampling_rate": 1.0, "iterations": 30, "learning_rate": 0.5, "optimiser": "adam"}
TIMEOUT_S = 900.0

RIVALS = ("DP-SGD, batches", "DP-SGD, all rows", "objective perturbation", "AdaSSP", "diffprivlib")
OURS = ("moments (default)", "gradient, 30 steps", "gradient, batches")


def auc(scores: Floats, labels: Floats) -> float:
    """Return the probability that a row of label 1 has a higher score than one of label 0."""
    ranks, ones = rankdata(scores), float(labels.sum())
    return float((ranks[labels == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(labels) - ones)))


def objective_perturbation(x: Floats, y: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return weights by objective perturbation with Gaussian noise [KST12]: rows of norm 1, loss of curvature 1/4."""
    deviation = np.sqrt(8 * np.log(2 / DELTA) + 4 * epsilon) / epsilon
    ridge, noise = 2 * 0.25 / epsilon, rng.normal(0.0, deviation, x.shape[1])

    def loss(w: Floats) -> tuple[float, Floats]:
        u = x @ w
        value = float((np.logaddexp(0.0, u) - y * u).sum() + ridge / 2 * (w @ w) + noise @ w)
        return value, x.T @ (expit(u) - y) + ridge * w + noise

    found: Floats = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    return found


def ada_ssp(x: Floats, y: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return the line of least squares by AdaSSP [Wang18]: thirds of the budget for X^T X, X^T y and the eigenvalue."""
    sigma = analytic_gaussian_sigma(sensitivity=1.0, epsilon=epsilon / 3, delta=DELTA / 3)
    n = x.shape[1]
    half = rng.normal(0.0, sigma, (n, n))
    matrix = x.T @ x + np.triu(half) + np.triu(half, 1).T
    smallest = max(0.0, float(np.linalg.eigvalsh(x.T @ x)[0]) + sigma * float(rng.normal()) - sigma)
    ridge = max(0.0, 2 * np.sqrt(n) * sigma - smallest)
    sums = x.T @ (2 * y - 1) + rng.normal(0.0, sigma, n)
    return np.asarray(np.linalg.solve(matrix + (ridge + 1e-9) * np.eye(n), sums), dtype=np.float64)


def diffprivlib_scores(x: Floats, y: Floats, testing: Floats, epsilon: float, runs: int) -> list[Floats]:
    """Return the log odds that the library's logistic regression gives, one array per run.

    Raises:
        PeerUnavailableError: it cannot be installed here.
    """
    python = ensure_environment("diffprivlib", REQUIREMENTS) / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="diffprivlib-") as folder:
        np.savez(Path(folder) / "rows.npz", x=x[:, :-1], y=y, testing=testing[:, :-1])
        command = [str(python), str(PROGRAMS / "diffprivlib_logistic.py"), folder, str(epsilon), str(runs)]
        run_to_its_end(command, TIMEOUT_S)
        return list(np.load(Path(folder) / "scores.npy"))


@cache
def _data(name: str) -> LabelledTables:
    return TABLES[name]()


def compare(name: str, epsilon: float, runs: int, *, with_library: bool) -> dict[str, Any]:
    """Return the median AUC of every way on a table."""
    data, rng = _data(name), np.random.default_rng(0)
    schemas = [table.schema for table in data.training]

    def planned(**parameters: Any) -> Any:
        return plan(data.job(epsilon=epsilon, delta=DELTA, **parameters), schemas)

    moments, gradient = planned(), planned(method="gradient")
    batches, exact = planned(method="gradient", **BATCHES), exact_gram(data, moments)
    (x, y), (testing, labels) = scaled_rows(data.training, gradient), scaled_rows(data.testing, gradient)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "rng": rng}
    ways: dict[str, Callable[[], Floats]] = {
        OURS[0]: lambda: own_scores(data, moments, *released_moment_weights(moments, exact)),
        OURS[1]: lambda: testing @ released_weights(data.training, gradient, 0),
        OURS[2]: lambda: testing @ released_weights(data.training, batches, int(rng.integers(1 << 30))),
        RIVALS[0]: lambda: testing @ dp_sgd_weights(x, y, **budget, **BATCHES),
        RIVALS[1]: lambda: testing @ dp_sgd_weights(x, y, **budget, **FULL),
        RIVALS[2]: lambda: testing @ objective_perturbation(x, y, epsilon, rng),
        RIVALS[3]: lambda: testing @ ada_ssp(x, y, epsilon, rng),
    }
    found = {way: statistics.median(auc(score(), labels) for _ in range(runs)) for way, score in ways.items()}
    if with_library:
        scores = diffprivlib_scores(x, y, testing, epsilon, runs)
        found[RIVALS[4]] = statistics.median(auc(one, labels) for one in scores)
    best = max(found[rival] for rival in RIVALS if rival in found)
    return {
        "table": name,
        "rows": len(x),
        "features": x.shape[1] - 1,
        "epsilon": epsilon,
        "no privacy": auc(testing @ exact_weights(x, y), labels),
        **found,
        "behind the best rival": best - found[OURS[0]],
    }


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table in Markdown."""
    ways = [way for way in ("no privacy", *OURS, *RIVALS, "behind the best rival") if way in rows[0]]
    lines = [f"| table | epsilon | {' | '.join(ways)} |", f"| --- | --- |{' --- |' * len(ways)}"]
    lines += [f"| {r['table']} | {r['epsilon']:g} | {' | '.join(f'{r[way]:.4f}' for way in ways)} |" for r in rows]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=sorted(TABLES), default=list(TABLES))
    parser.add_argument("--epsilons", nargs="*", type=float, default=[0.5, 1.0, 4.0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--without-library", action="store_true", help="leave out diffprivlib, which must be installed")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    with_library = not options.without_library
    if with_library:
        try:
            ensure_environment("diffprivlib", REQUIREMENTS)
        except PeerUnavailableError as error:
            sys.stderr.write(f"{error}\nthe comparison is made without it\n")
            with_library = False
    rows = [
        compare(name, epsilon, options.runs, with_library=with_library)
        for name in options.only
        for epsilon in options.epsilons
    ]
    sys.stdout.write((json.dumps(rows, indent=2) if options.format == "json" else as_text(rows)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
