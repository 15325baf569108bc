"""The programs of docs/client.md run as they are printed."""

import re
from pathlib import Path

import numpy as np
import pytest

import moiety

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
ASKING, TRYING, _DEVICES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.slow
def test_the_first_program_asks_a_federation(monkeypatch, capsys):
    rng = np.random.default_rng(1)
    people = {
        "id": [f"p{n}" for n in range(200)],
        "age": rng.uniform(20, 80, 200).tolist(),
        "income": rng.uniform(0, 9e4, 200).tolist(),
    }
    table = moiety.Table(
        "people", people, bounds={"age": (0, 120), "income": (0, 1e5)}, rows=(100, 1000), id_column="id"
    )
    with moiety.local_federation({"bank": table, "clinic": table, "shop": table}) as federation:
        monkeypatch.chdir(federation.client_config.parent)
        named: dict[str, object] = {}
        exec(ASKING, named)
        named["client"].close()
    assert named["result"].components_.shape == (2, 6)
    shown = capsys.readouterr().out
    assert "bank.people: 100 to 1000 rows" in shown
    assert "DONE" in shown


@pytest.mark.slow
def test_the_second_program_needs_no_federation(capsys):
    exec(TRYING, {})
    assert re.fullmatch(r"\[-?\d+\.\d+\]\n", capsys.readouterr().out)
