"""Write the test vectors of masked sums.

Use: PYTHONPATH=.:tests/support python tests/vectors/secagg/generate.py [--check]
All randomness comes from named insecure sources, so the files are reproducible. Review differences.
"""

import json
import sys

from secagg_vectors import FOLDER, all_vectors


def main(check: bool) -> int:
    """Write the files, or compare them; return how many differ."""
    made = {f"{name}.json": json.dumps(content, indent=1) + "\n" for name, content in all_vectors().items()}
    there = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    differing = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    print(*differing, sep="\n", end="\n" if differing else "")
    if check:
        return len(differing)
    for name in there.keys() - made.keys():
        (FOLDER / name).unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
