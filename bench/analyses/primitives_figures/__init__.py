"""What the theorems of [VertPrim23] say and other pages do not measure: C.2, D.2 to D.5, E.1 by the columns, and H."""

from collections.abc import Callable, Iterator, Sequence
from math import exp, sqrt
from typing import Any

import numpy as np

from analyses.clustering.estimators.cells import Cells
from analyses.clustering.grid import points_of
from analyses.clustering.local_clustering import WIDTH
from analyses.clustering.protocol import scaled_rows
from analyses.clustering.weighted_clustering import Choices, cluster, loss, nearest
from analyses.job.schema import BlockSchema, ColumnSchema, Table
from analyses.pattern_count.persons import described
from analyses.power_moments import protocol as power_moments
from bench.analyses.additive_error import low_rank_error
from bench.analyses.claims import Setting, Verdict, _exponent, _verdict
from bench.analyses.clustering import non_private_centres, plan_of
from bench.analyses.clustering_countings import exact_counts
from bench.analyses.table import Row
from bench.datasets.clustering_tables import BUNDLED
from bench.utility import moment_runs
from bench.utility.pattern_count import categories_of, error_of_reports, fitted
from bench.utility.pattern_count import plan_of as plan_of_patterns
from dp.local_mechanism.odds import Odds
from dp.local_mechanism.sign_response import SignResponse
from entropy import SystemEntropy

MOMENTS, CLUSTERING, LOW_RANK = "theorem C.2", "theorems D.2 to D.5", "theorem E.1"
MOMENT_OF_ROWS, MOMENT_OF_EPSILON = "exponent of the rows in the error", "exponent of 1/epsilon in the error"
COUNTS_OF_ROWS, COUNTS_OF_CLUSTERS = "exponent of the rows in k^v counts", "exponent of k in k^v counts, v = {}"
GRID, WHOLE = "cost of the grid to that of k centres", "cost of k centres of the grid to that of k centres"
OF_COLUMNS = "exponent of the columns in the error"
PERSONS, PERSONS_OF_ROWS = "appendix H, hybrid", "exponent of the persons in the error of a count"
PERSONS_OF_EPSILON = "exponent of 1/epsilon in the error of a count, v = {}"
OF_A_COUNT = "root mean square error of a count, in persons"
K = 5
POWERS: tuple[int, ...] = (2, 1)


def moments(quick: bool) -> Iterator[Row]:
    """Yield how the error of algorithm 2 about the moment of order 2 grows, three parties, where all rows are 0."""
    runs = 1 if quick else 15

    def error(n_rows: int, epsilon: float) -> float:
        column = (ColumnSchema(name="count", lower=0, upper=3),)
        schemas = [BlockSchema(party=f"party-{j}", columns=column, rows=(1, n_rows)) for j in (1, 2, 3)]
        tables = [Table(schema, np.zeros((n_rows, 1))) for schema in schemas]
        parameters = {"order": 2, "max_rows": n_rows, "method": "threshold", "threshold": 24}
        plan = moment_runs.plan_of(power_moments, "moments", tables, parameters, epsilon)
        found = [float(moment_runs.run_in_process(plan, tables).result["moment"]) for _ in range(runs)]
        return float(np.sqrt(np.mean(np.square(found))))

    rows = (500, 1000) if quick else (500, 2000, 8000, 32_000)
    by_rows = [error(n, 4.0) for n in rows]
    yield _grown(MOMENTS, MOMENT_OF_ROWS, rows, by_rows, f"epsilon 4; {runs} runs each")
    epsilons = (2.0, 4.0) if quick else (0.5, 1.0, 2.0)
    by_epsilon = [error(2000, epsilon) for epsilon in epsilons]
    inverse = [1 / epsilon for epsilon in epsilons]
    yield _grown(MOMENTS, MOMENT_OF_EPSILON, inverse, by_epsilon, f"2,000 rows; {runs} runs each")


def _grown(theorem: str, metric: str, sizes: Sequence[float], errors: Sequence[float], note: str) -> Row:
    return Row(
        analysis=theorem,
        dataset=f"made-up, {sizes[0]:,g} to {sizes[-1]:,g}",
        epsilon=None,
        metric=metric,
        private=fitted(sizes, errors),
        note=f"error {errors[0]:.3g} to {errors[-1]:.3g}; {note}",
    )


def counts(quick: bool) -> Iterator[Row]:
    """Yield how k^v times the error of a count of memberships grows: the additive term of D.3 to D.5, over Delta^p."""
    repeats = 1 if quick else 5
    rows = (1 << 10, 1 << 11) if quick else (1 << 10, 1 << 12, 1 << 14, 1 << 16)
    by_rows = [K**2 * error_of_reports(2, n, repeats, n_categories=K) for n in rows]
    yield _grown(CLUSTERING, COUNTS_OF_ROWS, rows, by_rows, f"k = {K}, v = 2; {repeats} tables each")
    for v in (2, 3):
        clusters = (2, 4) if quick else (2, 4, 8)
        by_k = [k**v * error_of_reports(v, 1 << 12, repeats, n_categories=k) for k in clusters]
        note = f"4,096 rows; {repeats} tables each"
        yield _grown(CLUSTERING, COUNTS_OF_CLUSTERS.format(v), clusters, by_k, note)


def factors(quick: bool) -> Iterator[Row]:
    """Yield the multiplicative factors of D.2 and D.3 without privacy: local centres are the best that are found."""
    for name in ("mixed Gaussian",) if quick else ("mixed Gaussian", "letter", "lending club"):
        table = BUNDLED[name]().first(moment_runs.QUICK_ROWS)
        for v in (2,) if quick else (2, 4):
            tables = table.split(v)
            rows = scaled_rows(tables, plan_of(tables, 100.0))
            blocks = np.split(rows, np.cumsum([len(t.schema.columns) for t in tables])[:-1], axis=1)
            for p in POWERS:
                yield from _factors(f"{name}, {len(rows):,} rows, v = {v}, p = {p}", rows, blocks, p)


def _factors(where: str, rows: Any, blocks: Sequence[Any], p: int) -> Iterator[Row]:
    best = loss(rows, non_private_centres(rows, K, p), p)
    local = [non_private_centres(block, K, p) for block in blocks]
    members = [nearest(block, own)[0] for block, own in zip(blocks, local, strict=True)]
    cells = Cells.of_grid(exact_counts(members, K))
    centres = [WIDTH * (own + 1) / 2 for own in local]
    grid = points_of(centres, cells)
    found = cluster(grid, cells.weights, K, p, Choices(SystemEntropy())).centres
    most = len(blocks) ** abs(p / 2 - 1)
    for metric, points in ((GRID, grid), (WHOLE, found)):
        others = {"claimed at most": most} if metric == GRID else {}
        yield Row(CLUSTERING, where, None, metric, private=loss(rows, points, p) / best, others=others, note="one run")


def columns(quick: bool) -> Iterator[Row]:
    """Yield how the additive error of low-rank approximation grows with the columns, rows being as long."""
    runs, numbers = (1, (12, 24)) if quick else (9, (12, 24, 48, 96, 192))
    method = {"method": "sketch", "sketch_rows": 64, "row_norm": 12**0.5 / 2}
    errors = [low_rank_error(2000, 1024.0, method, runs, n)[0] for n in numbers]
    yield _grown(LOW_RANK, OF_COLUMNS, numbers, errors, f"sketch, epsilon 1024, 2,000 rows; medians of {runs}")


def persons(quick: bool) -> Iterator[Row]:
    """Yield how the error of a count grows where each device answers about one record of its person.

    Beside it, with the epsilon of the whole person, MPC in the coalition's view, and central DP, add or remove one.
    """
    runs, n = (1, 1 << 10) if quick else (160, 1 << 14)
    numbers = (1 << 9, 1 << 10) if quick else (1 << 10, 1 << 12, 1 << 14, 1 << 16)
    by_number = [_error_of_persons(number, 2, 0.5, runs) for number in numbers]
    yield _grown(PERSONS, PERSONS_OF_ROWS, numbers, by_number, f"v = 2, epsilon 0.5 of a response; {runs} runs each")
    epsilons = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
    for v in (1, 2, 3):
        errors = [_error_of_persons(n, v, epsilon, runs) for epsilon in epsilons]
        inverse = [1 / epsilon for epsilon in epsilons]
        yield _grown(PERSONS, PERSONS_OF_EPSILON.format(v), inverse, errors, f"{n:,} persons; {runs} runs each")
    for v in (1, 2, 3):
        for epsilon in (1.0,) if quick else (1.0, 2.0, 4.0, 8.0):
            plan, _ = plan_of_patterns(categories_of(n, 2, seed=0), 2, "mpc", epsilon)
            yield Row(
                PERSONS,
                f"made-up, {n:,} persons, v = {v}",
                epsilon,
                OF_A_COUNT,
                private=_error_of_persons(n, v, epsilon / v, runs),
                mpc=plan.noise.standard_deviation("coordinator"),
                central=sqrt(2 * exp(-epsilon)) / (1 - exp(-epsilon)),
                non_private=0.0,
                note=f"epsilon of the person, {epsilon / v:.3g} of a response; {runs} runs; others by their law, MPC "
                "in the coalition's view",
            )


def _error_of_persons(n: int, v: int, epsilon: float, runs: int) -> float:
    """Return the error of the counts of all patterns of v records, bits that are 1 for .4, .5 and .6 of n persons."""
    mechanism, squares = SignResponse(2, Odds.of_epsilon(epsilon), has_empty=True), []
    rng, names = np.random.default_rng(v), [f"record {place}" for place in range(v)]
    for _ in range(runs):
        bits = (rng.random((n, v)) < (0.4, 0.5, 0.6)[:v]).astype(np.int64)
        kinds = 1 + mechanism.respond(bits.reshape(-1), SystemEntropy()).reshape(n, v)
        cells = np.bincount(np.ravel_multi_index(kinds.T, (4,) * v), minlength=4**v).reshape((4,) * v)
        found = described([mechanism] * v, cells, names, [(0.0, 1.0)] * v, v)["patterns"]
        for row in found:
            if len(row["values"]) == v:
                exact = int(np.sum(np.all(bits == row["values"], axis=1)))
                squares.append((row["count"] - exact) ** 2)
    return float(np.sqrt(np.mean(squares)))


def parts() -> dict[str, Callable[[bool], Iterator[Row]]]:
    """Return what is measured, part by part."""
    return {
        "moments": moments,
        "counts of clusters": counts,
        "factors of clusterings": factors,
        "columns": columns,
        "persons": persons,
    }


def verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    """Yield the claims, and whether they hold. Theorems state bounds: an exponent below one holds."""
    c_2 = "[VertPrim23] theorem C.2: the error of a moment of order p = 2, v = 3, grows"
    yield _at_most(rows, f"{c_2} like the root of the rows at most", MOMENTS, MOMENT_OF_ROWS, 0.5, 0.05)
    yield _at_most(rows, f"{c_2} like (1 / epsilon)^(p + v) at most", MOMENTS, MOMENT_OF_EPSILON, 5.0, 0.25)
    bicriteria = [
        Setting(row.dataset, row.private, row.others["claimed at most"])
        for row in rows
        if row.analysis == CLUSTERING and row.metric == GRID and row.private is not None
    ]
    yield _verdict(
        "[VertPrim23] theorem D.2: the grid costs v^abs(p / 2 - 1) times what k centres do at most", bicriteria
    )
    whole = [
        Setting(row.dataset, row.private, 1.0, most=2.0)
        for row in rows
        if row.analysis == CLUSTERING and row.metric == WHOLE and row.private is not None
    ]
    yield _verdict(
        "[VertPrim23] theorem D.3: k centres of the grid cost a constant times what k centres do (twice, we ask)", whole
    )
    d_4 = "[VertPrim23] corollaries D.4 and D.5: the additive term grows"
    yield _exponent(rows, f"{d_4} like the root of the rows", CLUSTERING, COUNTS_OF_ROWS, 0.5, 0.05)
    for v in (2, 3):
        text = f"{d_4} like k^v, v = {v}"
        yield _exponent(rows, text, CLUSTERING, COUNTS_OF_CLUSTERS.format(v), float(v), 0.25)
    text = "[VertPrim23] theorem E.1: low-rank approximation's additive error grows like the root of the columns"
    yield _exponent(rows, text, LOW_RANK, OF_COLUMNS, 0.5, 0.1)
    text = "[VertPrim23] appendix H: where each device answers about one record, the error of a count grows like"
    yield _exponent(rows, f"{text} the root of the persons", PERSONS, PERSONS_OF_ROWS, 0.5, 0.05)
    for v in (1, 2, 3):
        claim = f"{text} (1 / epsilon)^v, v = {v}"
        yield _exponent(rows, claim, PERSONS, PERSONS_OF_EPSILON.format(v), float(v), 0.15)


def _at_most(rows: Sequence[Row], claim: str, theorem: str, metric: str, most: float, within: float) -> Verdict:
    for row in rows:
        if row.analysis == theorem and row.metric == metric and row.private is not None:
            text = f"fitted {row.private:.2f}, claimed at most {most:g}, within {within:g}"
            return Verdict(claim, row.private <= most + within, text)
    return Verdict(claim, None, "")
