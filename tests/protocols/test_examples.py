"""The examples print what NumPy says without secrets."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_circuit_prints_the_moments_of_all_salaries():
    path = EXAMPLES / "circuit.py"
    pay = np.concatenate([np.array(row) for row in runpy.run_path(str(path))["SALARIES"].values()])
    standardised = (pay - pay.mean()) / pay.std()
    environment = {"PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == (
        f"mean {pay.mean():.2f}, standard deviation {pay.std():.2f}, skewness {(standardised**3).mean():.3f}\n"
    )
