"""Where the library comes from: prepared in an image, else of rbcl, which leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

from child_processes import child_environ

import mpc
from mpc.matching.sodium import PREPARED

ROOT = Path(mpc.__file__).parents[1]

GENERATOR_DOUBLED = """
import sys
import numpy as np
from mpc.matching.group import Scalar
from mpc.matching.sodium import ristretto255
generator = bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
point = np.frombuffer(generator, dtype=np.uint8).reshape(1, 32)
print(Scalar(bytes([2]) + bytes(31)).multiply(point).tobytes().hex()[:8], "rbcl" in sys.modules)
"""
DOUBLED = "6a493210"


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env={**child_environ(), **environment}, capture_output=True, text=True)


def test_rbcl_leaves_no_file_behind(tmp_path):
    done = run(GENERATOR_DOUBLED, TMPDIR=str(tmp_path), LD_LIBRARY_PATH="")
    assert (done.stdout, done.stderr) == (f"{DOUBLED} True\n", "")
    assert os.listdir(tmp_path) == []


def test_a_prepared_library_is_taken_without_rbcl(tmp_path):
    folder = tmp_path / "kernels"
    command = [sys.executable, str(ROOT / "deploy" / "image" / "prepare-group"), str(folder)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    prepared = subprocess.run(command, env={**child_environ(), "TMPDIR": str(scratch)}, capture_output=True, text=True)
    assert prepared.returncode == 0, prepared.stderr
    assert os.listdir(folder) == [PREPARED]
    assert os.listdir(scratch) == []
    done = run(GENERATOR_DOUBLED, LD_LIBRARY_PATH=str(folder))
    assert (done.stdout, done.stderr) == (f"{DOUBLED} False\n", "")


def test_a_machine_that_refuses_the_library_is_said_so(tmp_path):
    """As where /tmp forbids programs: rbcl's import fails with an OSError."""
    (tmp_path / "rbcl.py").write_text('raise OSError("failed to map segment from shared object")')
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from mpc.matching.sodium import GroupUnavailableError, ristretto255
try:
    ristretto255()
except GroupUnavailableError as error:
    print(error.code, error)
"""
    done = run(program, LD_LIBRARY_PATH="")
    assert done.stdout.startswith("group-unavailable the library of the group ristretto255 cannot be loaded"), done
