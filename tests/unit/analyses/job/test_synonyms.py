"""Parameters that people know by other names: the same job as under their names here, and a note."""

import pytest
from registry_jobs import VARIANTS

from analyses.job.job import JobError
from analyses.registry import ANALYSES
from analyst.question import PCA, with_parameters_checked

NAMED = [(name, other, here) for name, analysis in ANALYSES.items() for other, here in analysis.synonyms.items()]


@pytest.mark.parametrize(("name", "other", "here"), NAMED)
def test_a_parameter_under_another_name_gives_the_same_job_and_a_note(name, other, here):
    analysis, job = ANALYSES[name], VARIANTS[name].job()
    assert here in analysis.parameters.model_fields
    assert other not in analysis.parameters.model_fields
    value = job.parameters.get(here, "telco.x0")
    meant = job.model_copy(update={"parameters": {**job.parameters, here: value}})
    written = {key: one for key, one in meant.parameters.items() if key != here} | {other: value}
    with pytest.warns(UserWarning, match=f"parameters.{other}: called `{here}` in {name}"):
        found = with_parameters_checked(job.model_copy(update={"parameters": written}))
    assert found.canonical_json() == meant.canonical_json()
    with pytest.raises(JobError, match=f"the same as `{here}`, which is given too"):
        with_parameters_checked(job.model_copy(update={"parameters": {**written, here: value}}))


def test_a_question_takes_the_names_of_scikit_learn():
    tables = {"bank": "people", "clinic": "people", "shop": "people"}
    with pytest.warns(UserWarning, match="n_components"):
        assert PCA(tables, epsilon=1, delta=1e-6, n_components=2).job.parameters == {"components": 2}
