"""The notebooks of examples/notebooks: kept without outputs, with links that lead somewhere; they run, and end."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from child_processes import child_environ
from deadlines import GENEROUS_S
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "examples" / "notebooks"
CHECKS = {
    "first-answer": """
        exact = np.array([[[np.sum((smokes == i) & (has_loan == j) & (came_back == k)) for k in (0, 1)]
                           for j in (0, 1)] for i in (0, 1)])
        assert np.abs(result.counts_ - exact).max() < 16 * result.standard_errors_.max() < 80
        (forecast,) = plan.forecast.quantities
        assert abs(forecast.standard_error - result.standard_errors_.max()) < 0.01
        assert answer == result.counts_[1, 1, 1] and truth == exact[1, 1, 1]
        assert counts.columns == ["clinic.smokes", "bank.has_loan", "shop.came_back", "count", "standard_error"]
    """,
    "three-table-study": """
        assert None not in components.variance and len(components.component_3) == 10
        assert np.mean(predicted == is_attack) > 0.9 > always_the_same
        assert len(model.chance_error) == 11 and len(own) == 500
        assert not folder.exists()
    """,
    "budget-and-policy": """
        assert 1.8 < smaller.standard_errors_.mean() / larger.standard_errors_.mean() < 2.2
        assert smaller.job.privacy.epsilon == 0.4
    """,
    "what-a-party-sees": """
        assert all(np.array_equal(found, secrets) for found in found_by_two) and len(found_by_two) == 3
        assert sorted(fitting) == list(range(101))
        assert all(100 < of.min() <= of.max() < 310 and of.sum() == 20_000 for of in counts.values())
        assert np.array_equal(recombined(local, (1, 2, 3)), secrets * factors)
        assert np.array_equal(recombined(reduced, (2, 3)), secrets * factors)
    """,
}
"""Notebook to what is true at its end."""

SAID = {
    "first-answer": ["1000 to 5000 rows", "Against the coordinator and 1 of 3 parties together: epsilon = 1"],
    "three-table-study": ["3 directions stand out of the noise", "stands_out", "1 job was paid"],
    "budget-and-policy": [
        "about 3 of epsilon 3 remains",
        "about 1.80 of epsilon 3 remains",
        "would come to epsilon 51.2 of 3",
        "this job is infeasible",
        "waits for the owners of clinic",
        "the owner refused the job: too much at once",
        "3.34 % of the budget",
        "by consent of the owner",
    ],
    "what-a-party-sees": ["parties (2, 3) find [  7  42   0 100  42]", "101 of 101 secrets fit"],
}
"""Notebook to what it must show."""


def read(name: str) -> NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def shown(notebook: NotebookNode) -> str:
    """Return what the cells printed and returned."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(one.get("text") or one.get("data", {}).get("text/plain", "") for one in outputs)


def execute(notebook: NotebookNode, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all cells in a kernel of their own, which ends whatever happens."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "TMPDIR"):
        (folder / name).mkdir()
        monkeypatch.setenv(name, str(folder / name))
    waits = dict.fromkeys(("timeout", "startup_timeout", "iopub_timeout"), GENEROUS_S)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, resources=resources, **waits).execute(env=child_environ())


def test_every_notebook_has_its_checks():
    assert {path.stem for path in FOLDER.iterdir()} == set(CHECKS) == set(SAID)


@pytest.mark.parametrize("name", CHECKS)
def test_a_notebook_is_kept_without_outputs_and_without_traces_of_who_ran_it(name):
    notebook = read(name)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert [cell.id for cell in notebook.cells if cell.metadata] == []
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in code:
        ast.parse(cell.source)


@pytest.mark.parametrize("name", CHECKS)
def test_the_links_of_a_notebook_lead_somewhere(name):
    texts = [cell.source for cell in read(name).cells if cell.cell_type == "markdown"]
    links = [link for text in texts for link in re.findall(r"\]\(([^)#\s]+)", text)]
    assert links
    assert [link for link in links if not (FOLDER / link).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_notebook_runs_and_finds_what_is_so(name, tmp_path, monkeypatch):
    notebook = read(name)
    notebook.cells.append(new_code_cell("if True:" + CHECKS[name]))
    execute(notebook, tmp_path, monkeypatch)
    text = shown(notebook)
    assert [words for words in SAID[name] if words not in text] == []
    assert list((tmp_path / "TMPDIR").iterdir()) == []


@pytest.mark.slow
def test_the_kernel_of_a_notebook_that_fails_ends_and_with_it_what_it_started(tmp_path, monkeypatch):
    """How a federation ends with its program, tests/services/test_local_federation.py shows."""
    notebook = new_notebook(cells=[new_code_cell("import os\nprint(os.getpid())"), new_code_cell("no_such_thing")])
    with pytest.raises(CellExecutionError, match="no_such_thing"):
        execute(notebook, tmp_path, monkeypatch)
    assert not Path("/proc", shown(notebook).strip()).exists()
