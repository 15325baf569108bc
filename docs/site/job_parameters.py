"""The reference of job files, from the models of jobs and of the parameters of each analysis."""

import tomllib
from collections import defaultdict
from pathlib import Path

from models import fields_of, models_in, section_of

from analyses.job.job import Job
from analyses.registry import OFFERED


def job_reference() -> str:
    """Return a page with every field of a job and the parameters of every analysis."""
    examples = _examples()
    lines = ["# Job files", "", *fields_of(Job)]
    for _, inner in models_in(Job):
        lines += section_of(inner, "##")
    for analysis in OFFERED:
        names = ", ".join(f"`{name}`" for name in analysis.names)
        files = [file for name in analysis.names for file in examples[name]]
        links = ", ".join(f"[{file}](../../examples/{file})" for file in files)
        lines += [f"## Parameters of {', '.join(analysis.names)}", ""]
        lines += [f"The section `parameters` of a job with `analysis` {names}.", ""]
        lines += [f"[What they mean](../{analysis.page}). Examples: {links}.", "", *fields_of(analysis.parameters)]
        for _, inner in models_in(analysis.parameters):
            lines += section_of(inner, "###")
    return "\n".join(lines)


def _examples() -> dict[str, list[str]]:
    """Return name of an analysis to the example jobs that ask for it: several, where it has several forms."""
    found = defaultdict(list)
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.toml")):
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        if "inputs" in tree:
            found[tree["analysis"]].append(path.name)
    return found
