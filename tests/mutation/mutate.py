"""Changes one module in every way that cosmic-ray knows and says which changes its tests do not notice.

    usage: python tests/mutation/mutate.py [MODULE [TEST...]]

Works on a copy of the tracked files, so that nothing here changes. Without arguments it takes all of `TESTS_OF`. The
figures that were reached stand in docs/decisions/021-mutation-testing.md.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS_OF = {
    "party/ledger/budget.py": ["tests/unit/party/ledger/test_budget.py"],
    "mpc/arithmetic/shamir.py": ["tests/unit/mpc/arithmetic/test_shamir.py"],
    "dp/cost/group.py": ["tests/accounting/test_person_neighbours.py"],
    "dp/draw/rejection.py": ["tests/unit/dp/draw/test_rejection.py"],
}
"""Modules with the fewest tests that should find any fault in them."""

LIMIT_S = 600.0
"""A change after which the tests take longer counts as noticed."""


def mutate(module: str, tests: list[str]) -> None:
    bins = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
        for name in filter(None, tracked.stdout.split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
        command = f"{sys.executable} -m pytest -q -x -p no:cacheprovider -p no:xdist {' '.join(tests)}"
        values = {"module-path": module, "timeout": LIMIT_S, "test-command": command}
        lines = ["[cosmic-ray]", "excluded-modules = []", *(f"{key} = {json.dumps(v)}" for key, v in values.items())]
        (copy / "mutation.toml").write_text("\n".join([*lines, "[cosmic-ray.distributor]", 'name = "local"', ""]))
        for step in (["init", "mutation.toml", "session.sqlite"], ["exec", "mutation.toml", "session.sqlite"]):
            subprocess.run([bins / "cosmic-ray", *step], cwd=copy, check=True)
        subprocess.run([bins / "cr-report", "--show-diff", "--surviving-only", "session.sqlite"], cwd=copy, check=True)


def main() -> None:
    module, tests = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else (None, [])
    chosen = TESTS_OF if module is None else {module: tests or TESTS_OF[module]}
    for name, of_it in chosen.items():
        print(f"=== {name}", flush=True)
        mutate(name, of_it)


if __name__ == "__main__":
    main()
