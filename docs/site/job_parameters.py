"""The reference of job files, from the models of jobs and of the parameters of each analysis."""

from models import fields_of, models_in, section_of

from analyses.job.job import Job
from analyses.registry import OFFERED


def job_reference() -> str:
    """Return a page with every field of a job and the parameters of every analysis."""
    lines = ["# Job files", "", *fields_of(Job)]
    for _, inner in models_in(Job):
        lines += section_of(inner, "##")
    for analysis in OFFERED:
        names = ", ".join(f"`{name}`" for name in analysis.names)
        links = ", ".join(f"[{name}](../../examples/{name})" for name in analysis.examples)
        lines += [f"## Parameters of {', '.join(analysis.names)}", ""]
        lines += [f"The section `parameters` of a job with `analysis` {names}.", ""]
        lines += [f"[What they mean](../{analysis.page}). Examples: {links}.", "", *fields_of(analysis.parameters)]
        for _, inner in models_in(analysis.parameters):
            lines += section_of(inner, "###")
    return "\n".join(lines)
