"""Python programs that tests start."""

import os
import sys


def child_environ() -> dict[str, str]:
    """The environment in which a Python program finds all that this process can import."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
