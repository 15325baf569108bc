"""Runs the demo of any analysis: its example over services, then the comparison that only a demo can make."""

import importlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cli.terminal.output import say
from demo.catalogue import Demo
from demo.job import run_example


def run_demo(
    stack: ExitStack, demo: Demo, keep: Path | None, rows: int | None, given: Mapping[str, Any]
) -> tuple[Any, str]:
    """Run a demo; says on the terminal what it does.

    Args:
        stack: on leaving it, all processes end and the working folder is removed.
        demo: which.
        keep: new folder that is kept instead.
        rows: connections to use; all where absent.
        given: the demo's own options to their values.

    Returns:
        What it shows, a dataclass that JSON can hold, and the same as text.
    """
    module = importlib.import_module(demo.module)
    changes = {option.field: given[option.name] for option in demo.options if option.field}
    others = {option.name: given[option.name] for option in demo.options if not option.field}
    run = run_example(stack, keep, rows, demo.name, changes)
    say("4/4  comparing with what somebody who held all columns could do (only a demo can)")
    outcome = module.compare(run, **others)
    return outcome, module.text_of(outcome)
