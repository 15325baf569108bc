"""Processes that see an analyst's installation: no library of services can be imported."""

import os
from pathlib import Path

from cli.main import SERVICE_LIBRARIES

REPOSITORY = Path(__file__).parent.parent.parent
WHOLE_PATH = (REPOSITORY, REPOSITORY / "proto", REPOSITORY / "tests" / "support")


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of such a process; modules that stand for the absent ones are written into a folder."""
    for name in SERVICE_LIBRARIES:
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name={name!r})\n")
    path = os.pathsep.join(map(str, (folder, *WHOLE_PATH)))
    return {**os.environ, "PYTHONPATH": path, "LD_LIBRARY_PATH": ""}  # nor has it libraries of kernels
