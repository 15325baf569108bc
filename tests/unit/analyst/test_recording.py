"""A Python file becomes the lines of a program, or is refused with its line before it runs."""

from pathlib import Path

import pytest

from analyses.job.job import JobError
from analyst.question import job_of
from analyst.recording import record

REPOSITORY = Path(__file__).parents[3]


def body(*lines):
    return "async def program(c, tables):\n" + "".join(f"    {line}\n" for line in lines)


def test_operators_operations_and_loops_become_lines():
    text = body(
        'age, debt = tables["bank"]["age"], tables["shop"]["debt"]',
        "points = 0",
        "for limit in range(10, 40, 10):",
        "    points = points + 2 * await c.less(limit, debt)",
        "poor = await c.less_equal(5, points)",
        'c.open("poor", poor.sum())',
        'c.open("ages", (tables["bank"]["age"] * poor - 1).sum())',
    )
    assert record(text) == (
        "x1 = column(bank.age)",
        "x2 = column(shop.debt)",
        "x3 = less(10, x2)",
        "x4 = mul(2, x3)",
        "x5 = less(20, x2)",
        "x6 = mul(2, x5)",
        "x7 = add(x4, x6)",
        "x8 = less(30, x2)",
        "x9 = mul(2, x8)",
        "x10 = add(x7, x9)",
        "x11 = less_equal(5, x10)",
        "open poor = sum(x11)",
        "x12 = mul(x1, x11)",
        "x13 = sub(x12, 1)",
        "open ages = sum(x13)",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import os\n" + body("pass"), "line 1: a program is one"),
        (body("import os"), "line 2: a program never imports"),
        (body('x = open("secrets")'), "NameError: name 'open' is not defined"),
        (body("while True:", "    pass"), "line 2: a program never loops on a condition"),
        (body('x = tables["a"]["b"]', "if x:", "    pass"), "line 3: a program never branches"),
        (body('x = tables["a"]["b"]', "y = x < 3"), "line 3: a program never compares; write await c.less"),
        (body('x = tables["a"]["b"]', "y = x / 3"), "line 3: TypeError: / of Recorded"),
        (body('x = tables["a"]["b"]', "y = await c.divide(x, 3)"), "line 3: there is no operation c.divide"),
        (body('x = tables["a"]["b"]', "y = x * 0.5"), "line 3: mul takes rows and whole numbers, not float"),
        (body('x = tables["a"]["b"]', 'c.open("x", x)'), "line 3: what is opened is a sum"),
        (body('x = tables["a"]["b"].sum() + 1'), "line 2: TypeError: + of Summed"),
        (body("x = c.__class__"), "line 2: the name __class__ begins with an underscore"),
        (body("def again():", "    pass"), "line 2: a program defines no function of its own"),
        (body('x = tables["a"]["b"]', "for i in range(2000):", "    x = x + 1"), "more than 1000 steps"),
        (body("pass"), "a program has 1 to 1000 lines, not 0"),
        ("async def program(c):\n    pass\n", "line 1: a program is `async def program"),
        ("async def program(c, tables)\n", "line 1: expected ':'"),
    ],
)
def test_what_is_no_program_is_refused_with_its_line(text, why):
    with pytest.raises(JobError) as refused:
        record(text, "score.py")
    assert str(refused.value).startswith("score.py: ")
    assert why in str(refused.value)


def test_a_job_file_may_name_the_file_of_its_program(tmp_path):
    job = (REPOSITORY / "examples" / "scorecard.toml").read_text(encoding="utf-8")
    head, _, _ = job.partition("program = [")
    (tmp_path / "job.toml").write_text(head + 'program = "score.py"\n')
    lines = ('known = tables["host"]["logged_in"]', 'c.open("known", known.sum())')
    (tmp_path / "score.py").write_text(body(*lines))
    asked = job_of(tmp_path / "job.toml")
    assert asked.parameters["program"] == ["x1 = column(host.logged_in)", "open known = sum(x1)"]
    (tmp_path / "score.py").write_text(body("import os"))
    with pytest.raises(JobError, match=r"score.py: line 2: a program never imports"):
        job_of(tmp_path / "job.toml")
    (tmp_path / "score.py").unlink()
    with pytest.raises(JobError, match=r"score\.py"):
        job_of(tmp_path / "job.toml")
