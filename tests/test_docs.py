"""What the documentation says of the code and of itself: drawings follow from the code, links and paths exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.analyses.page import NUMBERS
from cli.main import SUBCOMMANDS

REPOSITORY = Path(__file__).parent.parent
PAGES = sorted([*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"])
FOLDERS = (
    "analyses|analyst|audit|bench|cli|coordinator|demo|deploy|device|docs|dp|entropy|examples|mpc|party|proto|service|tests"
    "|transport"
)


def names(pages):
    return [page.relative_to(REPOSITORY).as_posix() for page in pages]


def test_drawings_follow_from_the_code():
    command = [sys.executable, "docs/drawings.py", "--check"]
    assert subprocess.run(command, cwd=REPOSITORY, env={"PYTHONPATH": ".:proto"}).returncode == 0


DECISIONS = {page.name[:3]: page for page in sorted((REPOSITORY / "docs" / "decisions").glob("[0-9]*.md"))}


@pytest.mark.parametrize("number", DECISIONS)
def test_a_decision_has_a_status_and_rooms_and_is_in_the_index(number):
    page = DECISIONS[number]
    title, _, status = page.read_text(encoding="utf-8").splitlines()[:3]
    rooms = re.match(rf"Accepted, \d{{4}}-\d\d(?:; changed by {LINKS})?\. Rooms?: ([a-z, ]+)\.", status)
    assert rooms, status
    assert [room for room in rooms[1].split(", ") if not (REPOSITORY / room).is_dir()] == []
    listed = (page.parent / "README.md").read_text(encoding="utf-8")
    assert listed.count(f"* [{title.removeprefix('# ')}]({page.name})") == len(rooms[1].split(", "))


LINKS = r"\[\d{3}\]\(\d{3}-[\w-]+\.md\)(?:, \[\d{3}\]\(\d{3}-[\w-]+\.md\))*"


@pytest.mark.parametrize("number", DECISIONS)
def test_a_decision_that_changes_another_is_named_there(number):
    """The line of its status says which, as in "Extends decision 010"."""
    status = DECISIONS[number].read_text(encoding="utf-8").splitlines()[2]
    changed = [one for one in re.findall(r"decision (\d{3})\]", status) if one < number]
    of_others = {one: DECISIONS[one].read_text(encoding="utf-8").splitlines()[2] for one in changed}
    assert [one for one, text in of_others.items() if f"[{number}](" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_every_link_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_every_path_of_a_module_exists(page):
    text = re.sub(r"\]\([^)]*\)", "]", page.read_text(encoding="utf-8"))  # links have a test of their own
    paths = set(re.findall(rf"(?<![\w/])(?:{FOLDERS})/[\w/]+\.(?:py|toml|md|proto|json)\b", text))
    assert sorted(path for path in paths if not (REPOSITORY / path).exists()) == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_every_command_that_a_page_names_exists(page):
    named = re.findall(r"(?:`|^)moiety ([a-z-]+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted({name for name in named if not name.startswith("-")} - set(SUBCOMMANDS)) == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_every_heading_that_is_linked_exists(page):
    text = page.read_text(encoding="utf-8")
    missing = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", text):
        linked = page if not target else page.parent / target
        if "://" in target or not linked.exists():
            continue
        headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if anchor not in anchors:
            missing.append(f"{target}#{anchor}")
    assert missing == []


GENERATED = {REPOSITORY / "docs" / "benchmarks.md", REPOSITORY / "docs" / "decisions" / "README.md"}
PROSE = [page for page in PAGES if page not in GENERATED]


@pytest.mark.parametrize("page", PROSE, ids=names(PROSE))
def test_no_page_says_a_thing_twice_in_the_same_words(page):
    """What stands twice was changed in one place only, sooner or later: then one of the two is not true."""
    by_hand = page.read_text(encoding="utf-8").partition(NUMBERS)[0]
    text = re.sub(r"```.*?```", "", by_hand, flags=re.DOTALL)
    prose = " ".join(line for line in text.splitlines() if not line.startswith("|"))
    sentences = [" ".join(one.split()) for one in re.split(r"(?<=[.:;])\s", prose)]
    long = [one for one in sentences if len(one.split()) >= 8]
    firsts = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    starts = [" ".join(cell.split()[:6]) for cell in firsts if len(cell.split()) >= 6]
    assert sorted({one for one in [*long, *starts] if [*long, *starts].count(one) > 1}) == []


def test_every_page_is_reachable_from_the_index():
    index = REPOSITORY / "docs" / "README.md"
    seen, waiting = set(), [index]
    while waiting:
        page = waiting.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        if page.is_dir():
            waiting += page.glob("*.md")
        elif page.suffix == ".md":
            targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
            waiting += [(page.parent / target).resolve() for target in targets if "://" not in target]
    unreachable = [page for page in (REPOSITORY / "docs").rglob("*.md") if page not in seen]
    assert [page.name for page in unreachable if not page.name.endswith(".head.md")] == []


def test_contributing_lists_every_target_and_every_folder_of_tests():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*## ", makefile, flags=re.MULTILINE)
    folders = [path.name for path in (REPOSITORY / "tests").iterdir() if path.is_dir() and "__" not in path.name]
    assert targets
    assert [target for target in targets if f"| `make {target}` |" not in text] == []
    assert [name for name in folders if f"`tests/{name}/" not in text.partition("| where | what |")[2]] == []
