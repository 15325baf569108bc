"""Every parameter that a job leaves out is chosen from the job and from what owners declare, never from rows."""

import re
from pathlib import Path

import pytest
from registry_jobs import VARIANTS

from analyses.registry import ANALYSES, OFFERED

PAGE = Path(__file__).parents[3] / "docs" / "analyses" / "parameters.md"

REQUIRED = {
    "circuit": {"program"},
    "clustering": {"k"},
    "least-squares": {"label"},
    "logistic-regression": {"label"},
    "low-rank": {"rank"},
    "pca": {"components"},
}
"""What is asked for; all else has a default or a rule. `max_rows` follows from the tables."""


def test_only_what_is_asked_for_must_be_given():
    for analysis in OFFERED:
        fields = analysis.parameters.model_fields
        required = {name for name, field in fields.items() if field.is_required()} - {"max_rows"}
        assert required == REQUIRED.get(analysis.names[0], set()), analysis.names


def test_the_page_names_every_parameter_of_every_analysis():
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    by_name = {name: section for section in sections for name in re.findall(r"`([a-z-]+)`", section.split("\n")[0])}
    for analysis in OFFERED:
        named = set(re.findall(r"`([a-z_]+)`", by_name[analysis.names[0]]))
        missing = set(analysis.parameters.model_fields) - named
        if "gamma" in analysis.parameters.model_fields:
            missing -= set(re.findall(r"`([a-z_]+)`", by_name["gamma"]))
        assert not missing, (analysis.names, missing)


@pytest.mark.parametrize("name", ["pca", "low-rank", "least-squares", "logistic-regression", "clustering"])
def test_a_plan_is_made_without_any_table(name):
    variant = VARIANTS[name]
    asked = {key: variant.parameters[key] for key in REQUIRED[name]}
    job = variant.job(parameters=asked)
    schemas = {owner: table.schema for owner, table in variant.tables().items()}
    empty = next(iter(schemas.values())).model_copy(update={"columns": (), "has_ids": False, "rows": None})
    members = [schemas.get(m, empty.model_copy(update={"party": m})) for m in job.members]
    plans = [ANALYSES[name].plan(job, members) for _ in range(2)]
    assert plans[0].model_dump_json() == plans[1].model_dump_json()
    other = [s.model_copy(update={"rows": (s.rows[0], 2 * s.rows[1])}) if s.rows is not None else s for s in members]
    assert ANALYSES[name].plan(job, other).model_dump_json() != plans[0].model_dump_json()
