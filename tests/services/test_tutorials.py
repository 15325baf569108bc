"""docs/tutorials/own-tables.md, followed to the letter."""

import json
import time

import pytest
from reader import Reader, blocks_of

from demo.ports import free_row_of_ports

PAGE = "docs/tutorials/own-tables.md"
PROGRAM, NEW, COPY, BANK, CLINIC, SHOP, START, ASK, BUDGET = blocks_of(PAGE)
MAX_COMMANDS = 10
"""From an installed Moiety to the first answer about own tables."""


@pytest.fixture
def reader(tmp_path, monkeypatch):
    reader = Reader(tmp_path, monkeypatch)
    try:
        yield reader
    finally:
        reader.leaves()


@pytest.mark.slow
def test_the_first_answer_about_own_tables_takes_few_commands(reader, tmp_path):
    assert [block.language for block in (PROGRAM, BANK, CLINIC, SHOP)] == ["python", "toml", "toml", "toml"]
    typed = [line for block in (NEW, COPY, START, ASK) for line in block.lines]
    assert len(typed) == 9 <= MAX_COMMANDS  # as the page says
    reader.runs(PROGRAM.text)
    began_s = time.monotonic()
    first = free_row_of_ports(4)
    (new,), (ask,), (budget,) = NEW.lines, ASK.lines, BUDGET.lines
    reader.types(new, "--first-port", str(first))
    for line in COPY.lines:
        reader.types(line)
    for name, block in (("bank", BANK), ("clinic", CLINIC), ("shop", SHOP)):
        path = tmp_path / "acme" / name / "party.toml"
        head, heading, _ = path.read_text().partition("[tables.bounds]")
        assert block.text.startswith(heading)
        path.write_text(head + block.text)
    for line in START.lines:
        reader.starts(line)
    reader.waits(first)
    answer = json.loads(reader.types(ask, "--format", "json"))
    print(f"from `moiety new` to the answer: {time.monotonic() - began_s:.1f} s")
    result = answer["result"]
    assert answer["state"] == "DONE"
    assert result["columns"] == ["bank.income", "clinic.age", "shop.orders"]
    income, age, orders = result["components"][0]
    assert income * age > 0 > age * orders  # as the page says
    assert result["explained_variance_ratio"][0] > 0.5
    assert result["n_above_noise"] >= 1
    (spent,) = json.loads(reader.types(budget, "--format", "json"))["budgets"]
    assert 2.9 < spent["remaining_epsilon"] < 3.1
