import importlib
from pathlib import Path

import pytest

import bench

MODULES = sorted(
    "bench." + path.relative_to(Path(bench.__file__).parent).with_suffix("").as_posix().replace("/", ".")
    for path in Path(bench.__file__).parent.rglob("*.py")
    if "--help" in path.read_text(encoding="utf-8") or "def main(arguments" in path.read_text(encoding="utf-8")
)


def test_there_are_benchmarks_with_options():
    assert "bench.sums.secagg_core" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_explains_its_options(name, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(name).main(["--help"])
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out
