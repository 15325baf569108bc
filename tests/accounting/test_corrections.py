"""Every known error of the papers is a row of docs/corrections.md, or is about something that is not built."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "corrections.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| printed", "| ---"))]

NOT_BUILT = None

CLAIMS = {
    "vertical clustering": {
        "composition over parties that share keys": "Theorem 4: S parties",
        "shared phantoms": "Phantom users that all parties share",
        "add or remove against replace": 'Lemma 3 for "differ in one record"',
        "normalised by the data": "Attributes are normalised",
        "keys that one party can give away": "DP rests on hash keys",
        "keys used again": "One key for all runs",
        "loose epsilon of one sketch": "epsilon' = epsilon_2 / (4 sqrt(M L))",
        "biased cardinality": "(harmonic mean of the levels)",
        "deviation of full bitmaps": "Relative deviation 0.649",
        "rule for k'": "smallest integer with 2 sigma",
        "delta of one in n": "| delta = 1 / n |",
        "bytes of table 1": "8 bytes for each number of a sketch",
    },
    "matrix factorization": {
        "two views of one sum": "corrected by -xi + xi'",
        "one rating moves all gradients": "HFL, one rating as the unit",
        "sampled rows of ratings": "Sampling rows, accounting for sampled",
        "fixed-size draws": "n' rows are drawn, a fixed number",
        "root of squared epsilons": "sqrt(sum epsilon_k^2)",
        "some constant c": '"Some constant c"',
        "private normalisers and rates": "rates are tuned on the training loss",
        "continuous noise in a field": "Continuous noise on integers",
        "per-user factor theta": "theta times the sensitivity of a rating",
        "megabytes of table 4.1": NOT_BUILT,
        "projected iterates": "Embeddings are projected after each update",
    },
    "vertical primitives": {
        "Gaussian noise for any epsilon": '"for any epsilon" (vertical primitives)',
        "label noise": "Label noise of variance",
        "one server's block": "Neighbours differ in one server's block",
        "long columns of G": "FAIL if a column of G",
        "epsilon / 16": "epsilon' = epsilon / 16",
        "clamped counts": "count = max(0, sum)",
        "moment of the noise": "The square of the noisy sketch",
        "power of a noisy value": "sum of y[i]^p",
        "values lost silently": "Values above M outside L",
        "product over m": "Product over j in [m]",
        "size of N": "N is s x m",
        "non-interactive": '"Non-interactive"',
        "99/100": "99/100 printed",
        "two scales of Laplace": "Lap(1 / epsilon) in appendix C",
        "continuous Laplace": "algorithm 2, continuous",
    },
    "principal components": {
        "rounding at random": "(eq. 13)",
        "L1 sensitivity": "min(Delta_2^2, sqrt(n) Delta_2)",
        "sub-sampling any mechanism": "Lemma 6: sub-sampling",
        "mean number of steps": "Lemma 14, table 3",
        "what a coalition knows": "One curious party knows 1/N",
        "norm that nobody checks": "Rows have norm at most 1 |",
        "baseline of m rows": "Local noise as a baseline",
        "replaced row": "Replacing a row has twice",
        "replaced record of a gradient": "A replaced record moves each of the three sums",
        "equation 9": "in eq. 9",
        "stray factor 2": "E_p ~ Sk(2 mu)",
        "captions": "Captions of tables 1 and 2",
        "alpha <= 2": '"alpha <= 2"',
        "epochs": 'Table 3: "5, 5, 8',
        "half the noise off the diagonal": "Equal variance everywhere",
    },
    "distributions under local privacy": {
        "GRR and OLH": "Constants of GRR and OLH",
        "OLH with an integer g": "OLH with g",
        "square wave, SR, PM, EMS, Wasserstein distance": NOT_BUILT,
    },
    "implementations": {
        "floating-point noise": "Low bits of floating-point noise",
        "numpy's Poisson": "numpy's Poisson variables",
        "wrap-around": "Sums that wrap around",
        "time of samplers": "Samplers whose time",
        "sampling is not accounting": "made by what draws",
        "integer orders and their edge": "an optimum at the edge is flagged",
        "private sizes of batches": "the divisor is rate times `max_rows`",
        "delta of at least one in n": "above 1 / (the most rows declared)",
        "keys used again": "keys are bound to job and purpose",
        "aborts that depend on data": "Jobs that fail where data",
        "randomise before bucketise": NOT_BUILT,
    },
}


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        pytest.param(claim, words, id=f"{paper}: {claim}")
        for paper, claims in CLAIMS.items()
        for claim, words in claims.items()
        if words is not NOT_BUILT
    ],
)
def test_a_known_error_has_a_row(claim, words):
    assert sum(words in row for row in ROWS) == 1, claim


def test_every_row_says_what_is_true_what_we_do_and_what_shows_it():
    for row in ROWS:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 4, row
        assert all(cells), row


def test_every_file_that_a_row_names_exists():
    tests = {path.name for path in (ROOT / "tests").rglob("*.py")}
    for name in re.findall(r"`([\w/]+\.py)`", TEXT):
        assert (ROOT / name).exists() if "/" in name else name in tests, name
    for name in re.findall(r"\]\(([\w/.-]+\.md)\)", TEXT):
        assert (ROOT / "docs" / name).exists(), name
