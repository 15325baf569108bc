"""The architecture page: its tree has every room, and each step of its walks names functions that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = (
    "analyses", "analyst", "cli", "coordinator", "demo", "device", "dp", "entropy", "ledger", "mpc", "page", "party",
    "questions", "results", "service", "transport",
)  # fmt: skip
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = re.findall(r"^## (The way of one .*?)$", PAGE, flags=re.MULTILINE)


@cache
def defined():
    """Return the names of all functions and classes of the rooms, methods as `Class.method`."""
    names = set()
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(node.name)
                elif isinstance(node, ast.ClassDef):
                    methods = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
                    names |= {node.name, *(f"{node.name}.{method.name}" for method in methods)}
    return names


def steps_of(walk):
    """Return the functions of each step, from the last column of the table under a heading."""
    section = PAGE.partition(f"## {walk}")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")]
    return [re.findall(r"`([^`]+)`", cells[-1]) for cells in rows[2:]]


def test_the_tree_has_every_room_of_several_modules():
    """But those of single analyses, which are named like them."""
    drawn = PAGE.partition("```\n")[2].partition("```")[0]
    tree = set(re.findall(r"^ *([a-z_]+) ", drawn, flags=re.MULTILINE)) | set(re.findall(r" {3,}([a-z_]+) ", drawn))
    rooms = {
        p.parent for room in (*ROOMS, "verify", "audit", "moiety") for p in (REPOSITORY / room).glob("*/__init__.py")
    }
    wanted = {room.name for room in rooms if room.parent.name != "analyses" and len(list(room.glob("*.py"))) > 2}
    assert {"proofs", "relay", "doctor"} <= wanted
    assert {*ROOMS, *wanted} - tree == set()


def test_there_is_a_walk_of_each_kind_of_computation():
    assert len(WALKS) == 2


@pytest.mark.parametrize("walk", WALKS)
def test_each_step_of_a_walk_names_functions_that_exist(walk):
    steps = steps_of(walk)
    assert len(steps) >= 8
    assert all(steps)
    assert sorted({name for step in steps for name in step} - defined()) == []


def test_a_function_that_does_not_exist_is_found():
    assert "GramSum.add" in defined()
    assert "GramSum.subtract" not in defined()
