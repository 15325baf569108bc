"""The reference of Python names: what the rooms that others import from offer."""

ROOMS = {
    "analyst.client": "What `from moiety import Client, AsyncClient` gives: ask, wait, get results.",
    "analyst.question": "One class per analysis: `from moiety import PCA`.",
    "analyst.results.result": "What the results of all analyses have.",
    "analyst.results.components": "Results of PCA and of low-rank approximations.",
    "analyst.results.linear": "Results of linear and logistic regression.",
    "analyst.results.clusters": "Results of clustering.",
    "analyst.results.counts": "Results of counts, sums, means, moments and distributions.",
    "analyst.results.factors": "Results of matrix factorization.",
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
