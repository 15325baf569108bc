"""Changes modules in the ways that cosmic-ray knows and says which changes their tests do not notice.

    python tests/mutation/mutate.py --sample 250 --seed 1 [--skip 0]     changes drawn from all of `ROOMS`
    python tests/mutation/mutate.py --module ledger/budget.py      all changes of one module

Works on a copy of the tracked files, so that nothing here changes. How a sample is drawn, what it costs and what was
reached stands in docs/decisions/021-mutation-testing.md.
"""

import argparse
import difflib
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from cosmic_ray import plugins
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec
from sample import drawn, interval
from tests_of_modules import ROOMS, modules, tests_of
from warm_tests import Outcome, run_tests, warm_up

ROOT = Path(__file__).parents[2]


def changes_of(names: Iterable[str]) -> list[MutationSpec]:
    """Return every change of some modules, in an order that depends on nothing else: path, operator, occurrence."""
    with use_db(":memory:", WorkDB.Mode.create) as known:
        init([ROOT / name for name in names], known, {})
        found = [item.mutations[0] for item in known.work_items]
    return sorted(found, key=lambda change: (str(change.module_path), change.operator_name, change.occurrence))


def copy_to(folder: Path) -> None:
    """Copy all tracked files, as they are in the working tree."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


class Copy:
    """A copy of the repository in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sound: dict[str, bool] = {}

    def is_sound(self, test: str) -> bool:
        """Return whether a test file passes where nothing is changed; one that does not is said once and not used."""
        if test not in self._sound:
            self._sound[test] = run_tests(self._folder, test, keeps_bytecode=True) is Outcome.UNNOTICED
            if not self._sound[test]:
                print(f"not used, as it fails without any change: {test}", flush=True)
        return self._sound[test]

    def try_change(self, change: MutationSpec) -> Outcome:
        """Make a change, run the tests of its module, take it back; a change that nothing notices is shown."""
        module = change.module_path.relative_to(ROOT)
        path = self._folder / module
        tests = tests_of(str(module), self._folder)
        before, times = path.read_text(), path.stat()
        after = mutate_code(before, plugins.get_operator(change.operator_name)(), change.occurrence)
        assert after is not None, "the copy holds the file in which the change was found"
        started_s, outcome = time.monotonic(), Outcome.UNNOTICED
        for test in tests:
            if not self.is_sound(test):
                continue
            try:
                path.write_text(after)
                outcome = run_tests(self._folder, test)
            finally:
                path.write_text(before)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled modules stay valid
            if outcome is not Outcome.UNNOTICED:
                break
        what = f"{module}:{change.start_pos[0]} {change.operator_name.partition('/')[2]} {change.occurrence}"
        print(f"{outcome:<9} {time.monotonic() - started_s:6.1f} s  {what}", flush=True)
        if outcome is Outcome.UNNOTICED:
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(module), "changed", "", "", 1, "")
            print("\n".join(lines), f"tests: {' '.join(tests)}", sep="\n", flush=True)
        return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", help="all changes of this one")
    parser.add_argument("--sample", type=int, default=250, help="so many changes of all modules")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="leave out so many: what an earlier run of the seed tried")
    options = parser.parse_args()
    if options.module:
        changes = changes_of([options.module])
        print(f"{len(changes)} changes of {options.module}", flush=True)
    else:
        known = changes_of(modules(ROOT))
        changes = drawn(known, options.seed, options.sample, options.skip)
        print(f"{len(changes)} of {len(known)} changes of {', '.join(ROOMS)}, seed {options.seed}", flush=True)
    warm_up()
    counted: Counter[Outcome] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy_to(Path(folder))
        copy = Copy(Path(folder))
        for change in changes:
            counted[copy.try_change(change)] += 1
            n_tried, n_missed = counted.total(), counted[Outcome.UNNOTICED]
            if n_tried % 10 == 0 or n_tried == len(changes):
                low, high = interval(n_tried - n_missed, n_tried)
                numbers = ", ".join(f"{outcome} {number}" for outcome, number in sorted(counted.items()))
                print(f"--- tried {n_tried}: {numbers}; noticed {low:.1%} to {high:.1%}", flush=True)


if __name__ == "__main__":
    main()
