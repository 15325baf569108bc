"""Tables of many columns: what is done for each is done once, so that eight times as many take eight times the work."""

import sys

import pytest

from analyses.job.job import JobInput
from party.tables.table import describe_table, load_table

FEW, MANY = 100, 800


def calls_of(work):
    """How many functions a piece of work calls, of Python and of C."""
    n_calls = 0

    def count(_frame, event, _argument):
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n_calls


@pytest.mark.parametrize("do", ["describe", "describe by name", "describe by kind", "load"])
def test_work_grows_with_the_number_of_columns_and_not_with_its_square(make_config, tmp_path, do):
    def work_for(n_columns):
        names = [f"c{i}" for i in range(n_columns)]
        (tmp_path / "visits.csv").write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n")
        bounds, columns = {f"c{{0..{n_columns - 1}}}": [0, 1]}, {}
        if do == "describe by kind":
            bounds, columns = {}, {name: {"kind": "number", "bounds": [0, 1], "missing": "column"} for name in names}
        config = make_config(bounds=bounds, columns=columns, on_request=names[:2])
        asked = tuple(names) if do == "describe by name" else ()
        brought = JobInput(party="north", table="visits", columns=asked)
        work = load_table if do == "load" else describe_table
        return lambda: work(config, brought)

    calls_of(work_for(5))  # what is imported or made once
    few, many = calls_of(work_for(FEW)), calls_of(work_for(MANY))
    assert many < 1.5 * MANY / FEW * max(few, 100)
