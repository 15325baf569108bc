"""The page of each analysis begins with its question, has the parts of all, and shows a job that can be asked."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import moiety
from analyses.job.job import Job
from analyses.registry import ANALYSES, OFFERED

DOCS = Path(__file__).parent.parent / "docs"
PARTS = ("How to ask", "What comes out", "Privacy", "Numbers")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

pages = pytest.mark.parametrize("page", [analysis.page for analysis in OFFERED])


def asked_on(page):
    """Return the job file and the Python that the page shows under "How to ask"."""
    shown = dict(FENCED.findall((DOCS / page).read_text().partition("## How to ask")[2].partition("\n## ")[0]))
    return shown["toml"], shown["python"]


@pages
def test_a_page_begins_with_the_question_in_plain_words(page):
    _, question, what_it_means = re.match(
        r"# (.+)\n\n\*\*([^*]+\?)\*\* ([^#`]+)\n## ", (DOCS / page).read_text()
    ).groups()
    assert len(question.split()) < 20
    assert len(what_it_means.split()) > 20


@pages
def test_a_page_has_the_parts_that_all_have_in_their_order(page):
    headings = re.findall(r"^## (.+)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    assert [heading for heading in headings if heading in PARTS or heading == "Beside other programs"][:4] == [
        *PARTS[:3],
        "Beside other programs" if page == "analyses/sums.md" else "Numbers",
    ]
    assert headings[:3] == list(PARTS[:3])


@pages
def test_the_job_of_a_page_is_one_that_can_be_asked(page):
    (common,) = [text for kind, text in FENCED.findall((DOCS / "analyses/which-job.md").read_text()) if kind == "toml"]
    first, _, parameters = asked_on(page)[0].partition("\n\n")
    job = Job.from_toml(f"{first}\n{common}\n{parameters}")
    model = ANALYSES[job.analysis].parameters
    declared = {"max_rows": 1000} if "max_rows" in model.model_fields else {}  # follows from what owners declare
    model.model_validate({**declared, **job.parameters})
    assert job.analysis in next(one.names for one in OFFERED if one.page == page)


@pages
def test_the_python_of_a_page_asks_the_same_job(page):
    toml, python = asked_on(page)
    names = {
        "tables": {"bank": "people", "clinic": "people", "shop": "people"},
        **{n: getattr(moiety, n) for n in moiety.__all__},
    }
    *before, question = ast.parse(python).body
    exec(compile(ast.Module(before, []), page, "exec"), names)
    job = eval(compile(ast.Expression(question.value), page, "eval"), names).job
    written = tomllib.loads(toml)
    assert (job.analysis, dict(job.parameters)) == (written["analysis"], written.get("parameters", {}))
