"""The order of tests: those that take longest begin first, so that no process of a run ends long before the others."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

QUICK_FILES = ("unit/cli/checks/test_audit.py", "protocols/", "accounting/", "security/")
"""What the files of `make test` begin with that take longest."""

SLOW_FILES = (
    "services/test_dask_hosts.py",
    "services/test_memory_over_rows.py",
    "services/test_three_hosts.py",
    "services/test_demo_methods.py",
    "services/test_workers.py",
    "services/test_demo.py",
    "unit/bench/test_coverage.py",
    "unit/cli/checks/test_audit.py",
)
"""Files of `make test-slow` with tests that take longest, often waiting: alone at the end they leave a core idle."""

Item = TypeVar("Item")


def place(file: str) -> int:
    """Return where a file stands among those of `make test`: the lower the earlier."""
    return next((number for number, start in enumerate(QUICK_FILES) if file.startswith(start)), len(QUICK_FILES))


def dealt(items: Sequence[Item], file_of: Callable[[Item], str], n_processes: int, first: Iterable[str]) -> list[Item]:
    """Return items in an order in which each process begins with some of the files that shall be first.

    `--dist worksteal` gives each process a stretch of the order, all of the same length, and later halves of what
    another one has not begun. The order within a file stays.
    """
    files = {file: number for number, file in enumerate(first)}
    hands: list[list[Item]] = [[] for _ in range(n_processes)]
    rest = [item for item in items if file_of(item) not in files]
    for item in sorted((item for item in items if file_of(item) in files), key=lambda item: files[file_of(item)]):
        hands[files[file_of(item)] % n_processes].append(item)
    order: list[Item] = []
    for number, hand in enumerate(hands):
        end = (number + 1) * len(items) // n_processes
        n_more = max(0, end - len(order) - len(hand))
        order += hand + rest[:n_more]
        del rest[:n_more]
    return order + rest
