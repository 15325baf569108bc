import pytest

from service.errors import InvalidRequestError
from service.job_id import check_job_id


@pytest.mark.parametrize("job_id", ["a", "0", "job-1", "A_b-" + "c" * 124])
def test_letters_digits_and_inner_signs_name_a_job(job_id):
    assert check_job_id(job_id) == job_id


@pytest.mark.parametrize(
    "job_id", ["", ".", "..", "../../x", "a/b", "-a", "_a", "a b", "a\n", "a\x00", "ä", "x" * 129], ids=ascii
)
def test_everything_else_is_refused_without_being_quoted(job_id):
    with pytest.raises(InvalidRequestError) as caught:
        check_job_id(job_id)
    assert str(caught.value).isascii()
    assert "\n" not in str(caught.value)
