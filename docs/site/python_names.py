"""The reference of Python names: what the rooms that others import from offer."""

ROOMS = {
    "analyst.client": "What `from moiety import Client, AsyncClient` gives: ask, wait, get results.",
    "analyst.question": "One class per analysis: `from moiety import PCA`.",
    "results.generic.result": "What the results of all analyses have.",
    "results.kinds.components": "What results of PCA and of low-rank approximations have.",
    "results.kinds.least_squares": "Results of linear regression.",
    "results.kinds.second_moments": "Released second moments, which are asked again.",
    "results.kinds.logistic_regression": "Results of logistic regression.",
    "results.kinds.clustering": "Results of clustering.",
    "results.kinds.pattern_count": "Results of pattern counts.",
    "results.kinds.sums": "Results of sums, means and histograms.",
    "results.kinds.moments": "Results of frequency moments.",
    "results.kinds.distribution": "Results of distributions.",
    "results.kinds.matrix_factorization": "Results of matrix factorization.",
    "demo.tutorial": "`moiety.local_federation` and `moiety.Table`.",
    "analyses.run_locally": "Every analysis in one process, to explore and compare: nobody is protected.",
    "analyses.job.analysis": "What an analysis is to the rest of the code.",
    "analyses.job.job": "A job as analysts submit it.",
    "mpc.protocol.computation": "Secret sharing as an analysis uses it.",
    "dp.mechanism.release": "Noise together with what it costs.",
}


def python_reference() -> str:
    """Return a page that mkdocstrings fills from docstrings."""
    lines = ["# Python", ""]
    for module, about in ROOMS.items():
        lines += [f"## {module}", "", about, "", f"::: {module}", "    options:", "      show_root_heading: false", ""]
    return "\n".join(lines)
