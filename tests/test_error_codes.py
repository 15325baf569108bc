"""The codes that the program puts at the ends of its errors, and those that the catalogue explains, are the same."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from syntax import nodes

from analyses.job.job import JobError
from mpc.errors import ProtocolError
from service.codes.coded_text import MAX_CODE_CHARACTERS, code_of, parted
from service.codes.explanations import catalogue
from service.errors import ServiceError
from service.settings_tree import SettingsError

REPOSITORY = Path(__file__).parent.parent
ROOMS = {path.parent.name for path in REPOSITORY.glob("*/__init__.py")} - {"bench"}


def codes_in(source: str) -> list[str]:
    """Return the codes that a module names: `code = "..."` of a class, `..._CODE = "..."`, `code="..."` of a call."""
    found: list[str] = []
    if not re.search(r"\bcode\s*[:=]|_CODE\b", source):  # most modules name none, and to parse all takes seconds
        return found
    for node in nodes(ast.parse(source)):
        value: ast.expr | None = None
        if isinstance(node, ast.keyword) and node.arg == "code":
            value = node.value
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and (target.id == "code" or target.id.endswith("_CODE")):
                value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value:
            found.append(value.value)
    return found


@cache
def used() -> dict[str, list[str]]:
    """Return the codes in the program, each with the modules that name it, once for each time."""
    places = defaultdict(list)
    for room in ROOMS:
        for path in (REPOSITORY / room).rglob("*.py"):
            for code in codes_in(path.read_text(encoding="utf-8")):
                places[code].append(str(path.relative_to(REPOSITORY)))
    return places


def explained() -> list[str]:
    return [one.code for group in catalogue().values() for one in group]


def test_every_code_of_the_program_is_explained_and_every_explanation_belongs_to_a_code():
    assert set(used()) == set(explained())


def test_no_code_is_used_for_two_things():
    assert {code: places for code, places in used().items() if len(places) > 1} == {}
    assert len(set(explained())) == len(explained())


def test_the_codes_of_a_module_are_found_in_whichever_way_they_are_written():
    source = 'class A(E):\n    code = "a-b"\nclass B(E):\n    code: str = "c-d"\nX_CODE = "e-f"\nf(t, code="g-h")\n'
    assert sorted(codes_in(source)) == ["a-b", "c-d", "e-f", "g-h"]


def test_codes_are_recognised_at_the_end_of_a_text():
    for code in explained():
        assert parted(f"text [{code}]") == ("text", code)
        assert len(code) <= MAX_CODE_CHARACTERS


def test_explanations_are_sentences():
    for group in catalogue().values():
        for one in group:
            for text in (one.means, one.cause, one.fix):
                assert re.fullmatch(r"[A-Z`].*[.]", text), f"{one.code}: {text}"


def test_every_error_of_the_services_and_of_the_protocols_has_at_least_the_code_of_its_base():
    assert {code_of(ServiceError()), code_of(ProtocolError()), code_of(SettingsError()), code_of(JobError())} <= set(
        explained()
    )


def test_an_error_that_nobody_foresaw_has_the_code_of_internal_errors():
    assert code_of(KeyError("secret")) == "internal-error"
