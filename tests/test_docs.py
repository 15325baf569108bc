"""What the documentation says of the code and of itself: drawings follow from the code, links and paths exist."""

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from bench.analyses.page import NUMBERS
from cli.main import SUBCOMMANDS

REPOSITORY = Path(__file__).parent.parent
PAGES = sorted([*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"])
FOLDERS = (
    "analyses|analyst|audit|bench|cli|coordinator|demo|deploy|device|docs|dp|entropy|examples|mpc|party|proto|service|tests"
    "|transport"
)


def found_on(pages, look):
    """Return what a function finds on each page, by the page's name, where it finds anything; it is given the text."""
    found = {page.relative_to(REPOSITORY).as_posix(): look(page, page.read_text(encoding="utf-8")) for page in pages}
    return {name: faults for name, faults in found.items() if faults}


def test_drawings_follow_from_the_code():
    command = [sys.executable, "docs/drawings.py", "--check"]
    assert subprocess.run(command, cwd=REPOSITORY, env={"PYTHONPATH": ".:proto"}).returncode == 0


DECISIONS = {page.name[:3]: page for page in sorted((REPOSITORY / "docs" / "decisions").glob("[0-9]*.md"))}


def test_a_decision_has_a_status_and_rooms_and_is_in_the_index():
    listed = (REPOSITORY / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for page in DECISIONS.values():
        title, _, status = page.read_text(encoding="utf-8").splitlines()[:3]
        rooms = re.match(rf"Accepted, \d{{4}}-\d\d(?:; changed by {LINKS})?\. Rooms?: ([a-z, ]+)\.", status)
        assert rooms, (page.name, status)
        assert [room for room in rooms[1].split(", ") if not (REPOSITORY / room).is_dir()] == [], page.name
        times = listed.count(f"* [{title.removeprefix('# ')}]({page.name})")
        assert times == len(rooms[1].split(", ")), page.name


LINKS = r"\[\d{3}\]\(\d{3}-[\w-]+\.md\)(?:, \[\d{3}\]\(\d{3}-[\w-]+\.md\))*"


def test_a_decision_that_changes_another_is_named_there():
    """The line of its status says which, as in "Extends decision 010"."""
    statuses = {number: page.read_text(encoding="utf-8").splitlines()[2] for number, page in DECISIONS.items()}
    for number, status in statuses.items():
        changed = [one for one in re.findall(r"decision (\d{3})\]", status) if one < number]
        assert [one for one in changed if f"[{number}](" not in statuses[one]] == [], number


def test_every_link_leads_somewhere():
    def missing(page, text):
        targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        return [t for t in targets if "://" not in t and not (page.parent / t).exists()]

    assert found_on(PAGES, missing) == {}


def test_every_path_of_a_module_exists():
    def missing(_, text):
        without_links = re.sub(r"\]\([^)]*\)", "]", text)  # links have a test of their own
        paths = set(re.findall(rf"(?<![\w/])(?:{FOLDERS})/[\w/]+\.(?:py|toml|md|proto|json)\b", without_links))
        return sorted(path for path in paths if not (REPOSITORY / path).exists())

    assert found_on(PAGES, missing) == {}


def test_every_command_that_a_page_names_exists():
    def missing(_, text):
        named = re.findall(r"(?:`|^)moiety ([a-z-]+)", text, flags=re.MULTILINE)
        return sorted({name for name in named if not name.startswith("-")} - set(SUBCOMMANDS))

    assert found_on(PAGES, missing) == {}


@cache
def anchors_of(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_heading_that_is_linked_exists():
    def missing(page, text):
        linked = [
            (target, page.parent / target if target else page, anchor)
            for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", text)
            if "://" not in target
        ]
        return [f"{t}#{anchor}" for t, at, anchor in linked if at.exists() and anchor not in anchors_of(at)]

    assert found_on(PAGES, missing) == {}


GENERATED = {REPOSITORY / "docs" / "benchmarks.md", REPOSITORY / "docs" / "decisions" / "README.md"}
PROSE = [page for page in PAGES if page not in GENERATED]


def test_no_page_says_a_thing_twice_in_the_same_words():
    """What stands twice was changed in one place only, sooner or later: then one of the two is not true."""

    def twice(_, whole):
        text = re.sub(r"```.*?```", "", whole.partition(NUMBERS)[0], flags=re.DOTALL)
        prose = " ".join(line for line in text.splitlines() if not line.startswith("|"))
        sentences = [" ".join(one.split()) for one in re.split(r"(?<=[.:;])\s", prose)]
        long = [one for one in sentences if len(one.split()) >= 8]
        firsts = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
        starts = [" ".join(cell.split()[:6]) for cell in firsts if len(cell.split()) >= 6]
        return sorted(one for one, times in Counter([*long, *starts]).items() if times > 1)

    assert found_on(PROSE, twice) == {}


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
