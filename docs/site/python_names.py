"""The reference of Python names: what the rooms that others import from offer."""

ROOMS = {
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
