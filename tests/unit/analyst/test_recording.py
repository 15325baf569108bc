"""A Python file becomes the lines of a program, or is refused with its line before it runs."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from analyses.circuit.program import INSTEAD, N_OPERANDS, program_of, ranges_of
from analyses.circuit.reference import values_of
from analyses.job.job import JobError
from analyst.question import job_of
from analyst.recorded_vectors import VECTORS
from analyst.recording import record
from mpc.protocol.computation import Computation

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
        (body('x = tables["a"]["b"]', "y = await c.divide(x, 3)"), "line 3: divide takes 3 operands, not 2"),
        (body('x = tables["a"]["b"]', "y = await c.divide(x, 3, least=1)"), "line 3: divide takes nothing by name but"),
        (body('x = tables["a"]["b"]', "y = await c.cube(x)"), "line 3: there is no operation cube; there are add, "),
        (body('x = tables["a"]["b"]', "y = await c.shuffle(x)"), "line 3: there is no operation shuffle: rows have no"),
        (body('x = tables["a"]["b"]', "y = await c.sort(x)"), "line 3: sort takes a list of steps of one row"),
        (body('x = tables["a"]["b"]', "y = await c.top_k([x], 2)"), "line 3: 2 values cannot be taken of 1"),
        (body('x = tables["a"]["b"]', "y = x * 0.5"), "line 3: mul takes rows and whole numbers, not float"),
        (body('x = tables["a"]["b"]', 'c.open("x", x)'), "line 3: what is opened is a sum"),
        (body('x = tables["a"]["b"].sum() + 1'), "line 2: TypeError: + of Summed"),
        (body("x = c.__class__"), "line 2: the name __class__ begins with an underscore"),
        (body("def again():", "    pass"), "line 2: a program defines no function of its own"),
        (body('x = tables["a"]["b"]', "for i in range(600):", "    x = 2 * x + 1"), "more than 1000 steps"),
        (body("for i in range(1000000):", "    pass"), "line 2: a loop has at most 1000 turns, not 1000000"),
        (body("await program(c, tables)"), "line 2: a program never calls itself"),
        (body('for i in tables["a"]["b"]:', "    pass"), "line 2: TypeError: iter() of Recorded"),
        (body('for i in range(tables["a"]["b"]):', "    pass"), "line 2: TypeError: "),
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


BOUNDS = {"a.x": (-3, 4), "b.y": (0, 5), "c.z": (-2, 2)}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("sum([v * w for v, w in zip(await c.sort([x, y, z, 1]), [1, 10, 100, 1000])])", lambda *v: sum(
            a * 10**i for i, a in enumerate(sorted([*v, 1]))
        )),
        ("(await c.top_k([x, y, z], 2))[1]", lambda *v: sorted(v)[1]),
        ("await c.median([x, y, z, 0])", lambda *v: sorted([*v, 0])[1]),
        ("await c.count_distinct([x, y, z])", lambda *v: len(set(v))),
        ("await c.count_distinct([x])", lambda *v: 1),
        ("(await c.argmax([x, y, z]))[0]", lambda *v: v.index(max(v))),
        ("(await c.argmax([x, y, z]))[1]", lambda *v: max(v)),
        ("(await c.one_hot(y, 3))[2]", lambda x, y, z: int(y == 2)),
        ("await c.lookup([x, 7, z], y)", lambda x, y, z: [x, 7, z, 0, 0, 0][y]),
        ("await c.prod([x, y, z])", lambda x, y, z: x * y * z),
        ("await c.is_zero(x)", lambda x, y, z: int(x == 0)),
        ("await c.from_bits((await c.bits(x, 4))[1:])", lambda x, y, z: x % 16 >> 1),
        ("await c.truncate(16 * x, n_bits=4)", None),
        ("await c.multiply_fixed(x, y, 2)", None),
    ],
)  # fmt: skip
def test_operations_on_lists_are_written_as_lines_that_come_to_the_same(written, expected):
    """On all rows of a small domain; of rounded ones the line itself is what counts."""
    lines = record(
        body('x, y, z = tables["a"]["x"], tables["b"]["y"], tables["c"]["z"]', f'c.open("o", ({written}).sum())')
    )
    program = program_of(lines)
    if expected is None:
        assert any(step.operation == "truncate" for step in program.steps)
        return
    ranges = ranges_of(program, BOUNDS, t=1)
    rows = list(itertools.product(*(range(low, high + 1) for low, high in BOUNDS.values())))
    columns = dict(zip(BOUNDS, np.array(rows, dtype=object).T, strict=True))
    values = values_of(program, columns)[str(program.opened[0].operands[0])]
    assert values.tolist() == [expected(*row) for row in rows]
    low, high = ranges[str(program.opened[0].operands[0])]
    assert low <= min(values) <= max(values) <= high


def test_the_page_says_of_each_operation_of_circuits_whether_programs_have_it():
    """All of them are there, each has a line, lines or a refusal of its own, and `Computation` has what is named."""
    page = (REPOSITORY / "docs" / "circuits.md").read_text(encoding="utf-8")
    table = page.partition("| wanted | written | in a job |")[2].partition("\n\n")[0]
    kinds = {"a line": N_OPERANDS, "lines": VECTORS, "no": INSTEAD, "": ()}
    named = set()
    for row in table.splitlines()[2:]:
        *_, written, kind, _ = (cell.strip() for cell in row.split("|"))
        for name in re.findall(r"c\.(\w+)\(", written):
            assert name in kinds[kind], name
            assert hasattr(Computation, name)
            named.add(name)
    local = {"add", "sub", "mul"}
    assert named | local >= {*N_OPERANDS, *VECTORS}
    for name in INSTEAD:
        with pytest.raises(JobError, match=f"line 2: there is no operation {name}: "):
            record(body(f"await c.{name}()"))
