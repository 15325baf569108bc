import pytest

from analyses.job.column_names import MAX_COLUMNS, expanded, expanded_fields, expanded_names, factors_in, spelled
from analyses.job.job import Job, JobError, JobInput


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("age", ("age",)),
        ("x{0..2}", ("x0", "x1", "x2")),
        ("{7..7} of a kind", ("7 of a kind",)),
        ("m_{08..11}", ("m_08", "m_09", "m_10", "m_11")),
        ("m_{0..10}", tuple(f"m_{i}" for i in range(11))),
        ("a {brace}", ("a {brace}",)),
        ("x{0}..{1}", ("x{0}..{1}",)),
    ],
)
def test_a_range_stands_for_its_columns_and_any_other_name_for_itself(name, columns):
    assert expanded(name) == columns


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x{3..1}", r"column 'x\{3..1\}': the range must ascend, and 3 is larger than 1"),
        ("x{a..c}", "a range has two whole numbers, such as"),
        ("x{0..}", "a range has two whole numbers"),
        ("x{0.5..2}", "a range has two whole numbers"),
        ("x{-1..2}", "a range has two whole numbers"),
        ("x{0..1}y{0..1}", "a name can have one range only"),
        (f"x{{1..{MAX_COLUMNS + 1}}}", "a range can have at most 10000 columns"),
    ],
)
def test_what_looks_like_a_range_and_is_none_is_refused_by_name(name, words):
    with pytest.raises(ValueError, match=words):
        expanded(name)


@pytest.mark.parametrize(
    ("name", "factors"),
    [
        ("age*income", ("age", "income")),
        ("age^3", ("age", "age", "age")),
        ("age^2*risk=high", ("age", "age", "risk=high")),
        ("a^2*age", ("a^2", "age")),
        ("age", None),
        ("age^1", None),
        ("age^5", None),
        ("age*name", None),
        ("age**age", None),
    ],
)
def test_the_name_of_a_product_says_its_factors_and_a_known_name_is_no_power(name, factors):
    assert factors_in(name, {"age", "income", "risk=high", "a^2"}) == factors
    if factors is not None:
        assert spelled(factors) == name


def test_names_keep_their_order_and_fields_belong_to_one_name():
    assert expanded_names(["b", "x{0..1}", "a"]) == ("b", "x0", "x1", "a")
    assert expanded_fields({"x{0..1}": 5, "b": 6}) == {"x0": 5, "x1": 5, "b": 6}
    with pytest.raises(ValueError, match=r"column 'x1' is named twice: by 'x\{0..2\}' and by 'x1'"):
        expanded_fields({"x{0..2}": 5, "x1": 6})


def test_all_participants_read_a_job_with_a_range_as_one_that_names_every_column():
    written = JobInput(party="bank", table="people", columns=("x{0..2}", "age"))
    assert written == JobInput(party="bank", table="people", columns=("x0", "x1", "x2", "age"))
    assert "{0" not in written.canonical_json()


def test_a_job_with_a_wrong_range_is_refused_with_the_place_and_the_reason():
    text = 'analysis = "pca"\n[[inputs]]\nparty = "bank"\ntable = "people"\ncolumns = ["age", "x{2..0}"]\n'
    with pytest.raises(JobError, match=r"inputs.*columns: .*the range must ascend"):
        Job.from_toml(text)
