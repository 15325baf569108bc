"""Every analysis is a folder of the same files, and the head of its protocol says which function is which line of the
paper.
"""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
from registry_jobs import HELPERS, VARIANTS

from analyses.job.job import JobError
from analyses.job.schema import BlockSchema
from analyses.registry import OFFERED, analysis_of

REPOSITORY = Path(__file__).parent.parent
PURE = ("analyses", "mpc", "dp")

NEEDED = {"plan", "protocol", "reference"}
OFFERED_BESIDE = {"forecast", "work"}
"""Where an analysis has such a part: its expected errors, what it takes of memory and processors."""

OF_ITS_OWN = {
    "circuit": {"errors", "exclusion", "functions", "program", "proven", "steps"},
    "clustering": {"certainty", "grid", "local_clustering", "noisy_lloyd", "partition_tree", "weighted_clustering"},
    "distribution": {
        "cohorts",
        "inquiry",
        "masked",
        "methods",
        "pair_estimate",
        "pairs",
        "questions",
        "shuffled",
        "survey",
    },
    "joint_sums": {"bin_counts", "bin_estimate", "bin_plan", "estimate", "parameters"},
    "kept_moments": {
        "answer",
        "canonical",
        "components",
        "discriminant",
        "factors",
        "logistic",
        "questions",
        "redrawn",
        "regression",
        "statistics",
        "tables",
        "variance",
    },
    "least_squares": {"fit", "line"},
    "logistic_regression": {
        "descent",
        "gradient_plan",
        "gradient_steps",
        "labelled_plan",
        "labelled_rows",
        "link",
        "moments_plan",
        "parameters",
        "taylor_gradient",
        "uncertainty",
        "weights",
    },
    "pca": {"spectrum"},
    "matrix_factorization": {
        "broadcast",
        "horizontal",
        "in_process",
        "job_plan",
        "model",
        "own_factors",
        "own_ratings",
        "posterior",
        "ratings",
        "round_noise",
        "unit_vectors",
        "vertical",
    },
    "pattern_count": {
        "groups",
        "hazards",
        "life_table",
        "persons",
        "products",
        "questions",
        "reports",
        "sum_answers",
    },
    "power_moments": {"column_sums", "reports", "sensitivity", "sketch"},
    "sums": {
        "asked",
        "noise",
        "records",
        "least_variance",
        "round",
        "row_vectors",
        "secure_sum",
        "parameters",
        "tree_counts",
        "vector_bound",
    },
}
"""Folder of an analysis to the further modules that it is made of."""

FOLDERS = sorted(
    {Path(inspect.getfile(analysis.own_plan)).parent.relative_to(REPOSITORY).as_posix() for analysis in OFFERED}
)
ANALYSES = [Path(folder).name for folder in FOLDERS]


def modules_in(folder):
    return {path.stem for path in (REPOSITORY / "analyses" / folder).glob("*.py")} - {"__init__"}


@cache
def definitions():
    """Return name to the functions and classes of that name, of all pure rooms."""
    found = {}
    for room in PURE:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            module = importlib.import_module(path.relative_to(REPOSITORY).with_suffix("").as_posix().replace("/", "."))
            for name, value in vars(module).items():
                if getattr(value, "__module__", None) == module.__name__:
                    found.setdefault(name, []).append(value)
    return found


def head_table(docstring):
    """Return the lines of the first indented table of a docstring."""
    for match in re.finditer(r"\n\n((?:    .+\n?)+)", docstring):
        lines = match[1].splitlines()
        if re.search(r"\bfunction *$", lines[0]) and len(lines) > 1:
            return lines
    return []


def unknown_names(lines):
    """Names in a table that are neither a module of the repository, nor a function or class, nor a method of one."""
    unknown = []
    for name in re.findall(r"`([^`]+)`", "\n".join(lines)):
        if "/" in name:
            exists = (REPOSITORY / name).exists()
        else:
            first, _, method = name.partition(".")
            exists = any(not method or hasattr(found, method) for found in definitions().get(first, []))
        unknown += [] if exists else [name]
    return unknown


@pytest.mark.parametrize("folder", ANALYSES)
def test_every_analysis_is_a_folder_of_the_same_files(folder):
    modules = modules_in(folder)
    assert NEEDED - modules == set()
    assert modules - NEEDED - OFFERED_BESIDE - OF_ITS_OWN.get(folder, set()) == set()


@pytest.mark.parametrize("folder", ANALYSES)
def test_no_file_of_an_analysis_is_empty(folder):
    for path in (REPOSITORY / "analyses" / folder).glob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assert path.stem == "__init__" or any(
            not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom) for node in body
        )


@pytest.mark.parametrize("folder", ANALYSES)
def test_the_head_of_a_protocol_says_which_function_is_which_line_of_the_paper(folder):
    source = (REPOSITORY / "analyses" / folder / "protocol.py").read_text(encoding="utf-8")
    lines = head_table(ast.get_docstring(ast.parse(source), clean=False))
    assert len(lines) >= 4, "no table whose first line ends with 'function'"
    assert len(re.findall("`", "\n".join(lines))) >= 6
    assert unknown_names(lines) == []


def test_a_name_that_does_not_exist_is_found():
    lines = [
        "1, shares   `GramSum.add`, `GramSum.subtract`",
        "2, noise   `analyses/pca/protocol.py`, `no_such_function`",
    ]
    assert unknown_names(lines) == ["GramSum.subtract", "no_such_function"]


def test_a_docstring_without_a_table_is_found():
    assert head_table("Words.\n\nMore words, and a function.\n\n    code, but no table\n") == []
    assert head_table("Words.\n\n    line    function\n    1       `f`\n\nMore.\n") == [
        "    line    function",
        "    1       `f`",
    ]


@pytest.mark.parametrize("name", VARIANTS)
def test_helpers_may_compute_but_in_sums_distributions_and_matrix_factorization(name):
    """As docs/known-limits.md says."""
    variant, tables = VARIANTS[name], VARIANTS[name].tables()
    job = variant.job(compute=HELPERS, anyway=True)
    schemas = [tables[m].schema if m in tables else BlockSchema(party=m) for m in job.members]
    if variant.analysis in {"secure-sum", "secure-mean", "secure-histogram", "distribution", "matrix-factorization"}:
        with pytest.raises(JobError, match=r"^compute: "):
            analysis_of(job).plan(job, schemas)
    else:
        assert analysis_of(job).plan(job, schemas).job.helpers == HELPERS
