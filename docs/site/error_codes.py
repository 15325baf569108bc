"""The catalogue of errors, from the files that `moiety explain` reads."""

from service.codes.explanations import catalogue

HEAD = """# Errors

The text of an error ends in a code in brackets: `error: cannot submit the job at acme: nothing listens at its address
[nothing-listens]`. The code stays when a text passes from a party to the coordinator and to the analyst, so it names
the cause where it arose. `moiety explain CODE` prints what stands here; `moiety job show --format json` and
`moiety job list --format json` have the code of a job's reason in `code`; in Python it is the `code` of an error
and of a `JobView`.

A code is that of a class of errors. It says nothing of data that the text does not say.
"""


def error_codes() -> str:
    """Return a page with every code."""
    lines = [HEAD]
    for title, group in catalogue().items():
        lines += [f"## {title}", ""]
        for one in group:
            lines += [f"### {one.code} {{: #{one.code} }}", "", one.means, ""]
            lines += [f"* **Likely cause:** {one.cause}", f"* **Fix:** {one.fix}", ""]
    return "\n".join(lines)
