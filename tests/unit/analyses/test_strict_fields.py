"""What somebody writes is of the type that its field has, or it is refused by name."""

import pytest

from analyses.clustering.plan import ClusteringParams
from analyses.job.job import Job, JobError
from analyses.pca.plan import PcaParams
from analyst.question import PCA
from device.config import SumPolicy
from mpc.strict_model import StrictModel
from party.policy import Rules
from questions.question import Question


class Numbers(StrictModel):
    whole: int = 1
    some: tuple[float, ...] = ()
    flag: bool | None = None


@pytest.mark.parametrize(
    "given",
    [{"whole": "2"}, {"whole": True}, {"whole": 2.0}, {"some": ["1"]}, {"some": [True]}, {"flag": "no"}, {"flag": 0}],
)
def test_another_type_is_refused(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        Numbers.model_validate(given)


def test_whole_numbers_are_floats_and_lists_are_tuples():
    assert Numbers.model_validate({"some": [1, 2.5]}).some == (1.0, 2.5)
    assert Numbers.model_validate_json('{"some": [1, 2.5], "flag": false}').flag is False


def test_jobs_parameters_questions_and_sections_of_configuration_are_strict():
    assert all(issubclass(one, StrictModel) for one in (Job, PcaParams, Question, Rules, SumPolicy))
    with pytest.raises(ValueError, match="components"):
        PcaParams.model_validate({"max_rows": 10, "components": "2"})
    with pytest.raises(ValueError, match="p\\n"):
        ClusteringParams.model_validate({"max_rows": 10, "k": 2, "p": True})


@pytest.mark.parametrize("name", ["epsilon", "delta", "deadline_s", "components", "colluding"])
@pytest.mark.parametrize("value", ["0.5", True])
def test_a_question_in_python_refuses_text_and_truth_values_by_name(name, value):
    with pytest.raises(JobError, match=rf"{name}: must be a (whole )?number"):
        PCA(
            {"a": "t", "b": "t", "c": "t"}, **{"epsilon": 1, "delta": 1e-6, "components": 1, "max_rows": 9, name: value}
        )
