"""The checker runs without the code that it checks."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CHECKED = ("analyses", "dp", "mpc.arithmetic", "mpc.protocol", "numpy", "party", "coordinator", "transport")


def test_the_checker_loads_neither_privacy_nor_analyses_nor_numpy():
    program = "import sys, verify.check; print('\\n'.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    names = loaded.stdout.split()
    assert "verify.privacy" in names
    assert [name for name in names if any(name == one or name.startswith(f"{one}.") for one in CHECKED)] == []
