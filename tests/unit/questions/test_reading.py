import pytest

from analyses.job.job import Job, JobError
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.sums.secure_sum import SumParams
from questions.reading import question_from_toml
from questions.shares import BatchQuestion


@pytest.mark.parametrize(
    "read", [question_from_toml, SumParams.from_toml, FactorQuestion.from_toml, BatchQuestion.from_toml, Job.from_toml]
)
@pytest.mark.parametrize(
    ("line", "hint"),
    [("length in m = 5", "stands in quotation marks"), ("columns = [age, income]", "stands in straight quotation")],
)
def test_a_name_or_a_text_without_quotation_marks_is_told_so_in_jobs_and_in_questions(read, line, hint):
    with pytest.raises(JobError, match=rf"the (question|job) is not valid TOML: .* {hint}"):
        read(f'record = "steps"\n{line}')
