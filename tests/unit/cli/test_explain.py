import json
import subprocess
import sys

from typer.testing import CliRunner

from cli.main import app
from service.codes.explanations import catalogue


def test_a_code_is_explained_as_it_stands_in_brackets_or_without():
    for given in ("budget-exhausted", "[budget-exhausted]"):
        result = CliRunner().invoke(app, ["explain", given])
        assert result.exit_code == 0
        assert result.stdout.splitlines()[0] == "budget-exhausted"
        assert "fix    Ask for a smaller epsilon" in result.stdout


def test_json_has_the_same_fields():
    found = json.loads(CliRunner().invoke(app, ["explain", "nothing-listens", "--format", "json"]).stdout)
    assert set(found) == {"code", "means", "cause", "fix"}


def test_without_a_code_all_are_listed():
    result = CliRunner().invoke(app, ["explain"])
    assert all(one.code in result.stdout for group in catalogue().values() for one in group)


def test_an_unknown_code_is_an_error_that_has_a_code_itself():
    result = CliRunner().invoke(app, ["explain", "no-such-thing"])
    assert result.exit_code == 4
    assert result.stderr.endswith("[nothing-there]\n")


def test_it_loads_neither_numerics_nor_grpc():
    heavy = "numpy", "grpc", "pydantic", "polars"
    code = f"import sys, cli.explain; sys.exit(' '.join(m for m in {heavy} if m in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.strip() == ""
    )
