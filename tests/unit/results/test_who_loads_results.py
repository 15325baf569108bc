"""Services need no room `results`: without a page their processes load no module of it."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


def loaded(*imported):
    """Names of the modules of `results` in a process that has imported some modules and all analyses."""
    program = f"import sys, analyses.registry, {', '.join(imported)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        env={"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'proto'}"},
    )
    modules = done.stdout.split()
    assert set(imported) <= set(modules)
    return [name for name in modules if name.partition(".")[0] == "results"]


def test_services_without_a_page_load_no_module_of_results():
    services = ("party.server", "coordinator.server", "device.device")
    assert loaded(*services, "cli.entry", "cli.main", "cli.serve") == []


@pytest.mark.slow
def test_a_module_of_results_that_is_loaded_is_found():
    assert "results.drawing.svg" in loaded("page.coordinator_page")
