import pytest

from analyses.job.job import JobError
from analyses.matrix_factorization.devices.question import FactorQuestion
from analyses.sums.secure_sum import SumParams
from questions.reading import question_from_toml
from questions.shares import BatchQuestion


@pytest.mark.parametrize(
    "read", [question_from_toml, SumParams.from_toml, FactorQuestion.from_toml, BatchQuestion.from_toml]
)
def test_a_name_that_needs_quotation_marks_is_told_so_in_questions_too(read):
    with pytest.raises(JobError, match=r"the question is not valid TOML: .* stands in quotation marks"):
        read('record = "steps"\nlength in m = 5')
