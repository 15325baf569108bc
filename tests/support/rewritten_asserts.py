"""Write pytest's form of test modules, whose asserts say what they compared: `rewritten_asserts.py FILE ...`.

Each process of a first run of `make test` would rewrite all of them, for 13 processor seconds in each of two and some
in each of six more.
"""

import sys
from pathlib import Path

from _pytest.assertion import rewrite


class Unwritten(Exception):
    """What pytest says of a file that it could not write."""

    @classmethod
    def trace(cls, what: str) -> None:
        raise cls(what)


def write(module: Path) -> None:
    """Write the file that pytest reads in place of a module."""
    source_hash, code = rewrite._rewrite_test(module, None)  # type: ignore[arg-type]
    folder = rewrite.get_cache_dir(module)
    folder.mkdir(parents=True, exist_ok=True)
    rewrite._write_pyc(Unwritten, code, source_hash, folder / (module.stem + rewrite.PYC_TAIL))  # type: ignore[arg-type]


if __name__ == "__main__":
    for file in sys.argv[1:]:
        write(Path(file).resolve())
