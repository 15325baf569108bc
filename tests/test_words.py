"""Words: module names that say nothing, second words for a party, texts that do not begin with what they are about,
traces of one machine, secrets in printed text."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
from syntax import nodes, statements

REPOSITORY = Path(__file__).parent.parent
ROOMS = (
    "analyses", "analyst", "audit", "cli", "coordinator", "demo", "device", "dp", "entropy", "ledger", "moiety", "mpc",
    "page", "party", "questions", "results", "service", "transport", "verify",
)  # fmt: skip

EMPTY_MODULE_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "base"}
SECOND_WORDS = {"node", "nodes", "worker", "workers", "aggregator", "aggregators"}
"""We say party and coordinator."""

OF_WORKERS = {
    "analyses/job/schema.py",
    "analyses/rows/joint_computation.py",
    "mpc/protocol/operations/sharded_rows.py",
    "mpc/protocol/session.py",
    "mpc/protocol/shards.py",
    "party/gate.py",
    "party/jobs.py",
    "transport/messages/session.py",
}
"""Modules beside `party/engine/` that speak of the workers of a party: processes that do part of its work."""

INVERTED = r"(?:[Oo]f|[Tt]hat of|[Tt]hose of|[Bb]y|[Ss]o (?:long|many|much|few|often|far)|[Aa]s|[Ll]ikewise)\b"
"""Beginnings of a text that needs a second reading: it shall begin with the thing, then its unit."""

INVERTED_TEXT = re.compile(INVERTED)
INVERTED_ITEM = re.compile(rf"^ +[\w*, `]+(?: \([^)]*\))?: {INVERTED}", re.MULTILINE)

MACHINE_TRACES = re.compile(
    r"/(?:work|home|root|Users)/|pypi\.org|pythonhosted|--(?:extra-)?index-url|deb\.debian\.org"
)
SECRET_NAME = re.compile(r"(?:^|_)(?:secret|seed|shares?|masks?|values|key_pem|private_key)$|^clear_|_key$")


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]


def committed_text_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [REPOSITORY / line for line in listed.stdout.splitlines()]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


def second_words(source: str) -> list[str]:
    """Names of functions, classes and arguments defined in the source that hold a second word for a party."""
    names: list[str] = []
    if not any(word in source.lower() for word in SECOND_WORDS):
        return names
    for node in nodes(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
    return [name for name in names if SECOND_WORDS & set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))]


def inverted_texts(source: str) -> list[str]:
    """Docstrings, texts below an assignment, and items of Args, Attributes and Raises that begin with `INVERTED`."""
    found = []
    for node in statements(source):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = str(statement.value.value)
                found += INVERTED_ITEM.findall(text)
                if INVERTED_TEXT.match(text):
                    found.append(text.partition("\n")[0])
    return found


def shown_secrets(source: str) -> list[str]:
    """Fields named like secrets that a dataclass would print, and such names inside f-strings."""
    in_braces = re.findall(r"\{[\s(]*(?:\w+\.)*(\w+)", source)
    shows_one = any(SECRET_NAME.search(name) for name in in_braces)
    found = []
    for node in nodes(ast.parse(source)) if shows_one else statements(source):
        if isinstance(node, ast.ClassDef):
            found += _printed_fields(node)
        elif isinstance(node, ast.FormattedValue):
            name = ast.unparse(node.value)
            last = name.split(".")[-1]
            if re.fullmatch(r"[\w.]+", name) and SECRET_NAME.search(last) and not last.startswith("n_"):
                found.append(f"f-string shows {name}")
    return found


def _printed_fields(cls: ast.ClassDef) -> list[str]:
    decorators = [ast.unparse(decorator) for decorator in cls.decorator_list]
    is_printed = any(text.startswith("dataclass") and "repr=False" not in text for text in decorators)
    if not is_printed or any(isinstance(item, ast.FunctionDef) and item.name == "__repr__" for item in cls.body):
        return []
    return [
        f"{cls.name}.{item.target.id} is printed"
        for item in cls.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and SECRET_NAME.search(item.target.id)
        and re.search(r"bytes|Array", ast.unparse(item.annotation))
        and "repr=False" not in ast.unparse(item)
    ]


def test_module_names_say_what_is_inside():
    stems = {path.relative_to(REPOSITORY).as_posix(): path.stem for path in python_files(*ROOMS, "bench", "examples")}
    assert [path for path, stem in stems.items() if EMPTY_MODULE_NAMES & set(stem.split("_"))] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_party_is_called_party(room):
    found = {}
    for path in python_files(room):
        name = path.relative_to(REPOSITORY).as_posix()
        words = second_words(path.read_text(encoding="utf-8"))
        if name in OF_WORKERS or name.startswith("party/engine/"):
            words = [word for word in words if "worker" not in word.lower()]
        if words:
            found[name] = words
    assert found == {}


def test_the_modules_that_may_speak_of_workers_do():
    for name in OF_WORKERS:
        assert second_words((REPOSITORY / name).read_text(encoding="utf-8")), name


@pytest.mark.parametrize(
    "line", ["def send(worker_index): ...", "class ComputeNode: ...", "def pick_aggregator(): ..."]
)
def test_a_second_word_for_a_party_is_found(line):
    assert len(second_words(line)) == 1


@pytest.mark.parametrize("room", ROOMS)
def test_a_text_begins_with_what_it_is_about(room):
    paths = {path.relative_to(REPOSITORY).as_posix(): path for path in python_files(room)}
    found = {name: inverted_texts(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "source",
    [
        'SEAL_BYTES = 16\n"""So much longer than its plaintext is a sealed message."""',
        'def losses(self):\n    """Those of all steps."""',
        'class Job:\n    """A job.\n\n    Attributes:\n        stage: of the job.\n    """',
        'def f(t_s):\n    """Wait.\n\n    Args:\n        t_s: so long at most.\n    """',
    ],
)
def test_a_text_that_begins_with_something_else_is_found(source):
    assert len(inverted_texts(source)) == 1


def test_a_text_that_begins_with_its_noun_passes():
    assert inverted_texts('WAIT_S = 3.0\n"""Seconds to wait, as long as a party may take."""') == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_secret_is_printed(room):
    found = {path.name: shown_secrets(path.read_text(encoding="utf-8")) for path in python_files(room)}
    assert {name: secrets for name, secrets in found.items() if secrets} == {}


@pytest.mark.parametrize(
    "text",
    [
        "@dataclass\nclass Pair:\n    key_pem: bytes",
        "@dataclass(frozen=True)\nclass Dealt:\n    input_share: FieldArray",
        "@dataclasses.dataclass\nclass A:\n    pass\n\n@dataclass\nclass Table:\n    values: NDArray[np.float64]",
        "raise ValueError(f'bad share {input_share}')",
        "log.info(f'derived {self.pair_key}')",
        "print(f'{clear_sum!r}')",
    ],
)
def test_a_printed_secret_is_found(text):
    assert len(shown_secrets(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "@dataclass\nclass Pair:\n    key_pem: bytes = field(repr=False)",
        "@dataclass(repr=False)\nclass Pair:\n    pair_key: bytes",
        "@dataclass\nclass Clip:\n    clipped_values: int",
        "raise ValueError(f'expected {n_shares} shares from {sorted(shares_by_party)}')",
    ],
)
def test_a_hidden_secret_passes(text):
    assert shown_secrets(text) == []


def test_no_file_names_one_machine_or_registry():
    found = [
        f"{path.relative_to(REPOSITORY)}: {match.group()}"
        for path in committed_text_files()
        if path != Path(__file__)
        and (match := MACHINE_TRACES.search(path.read_text(encoding="utf-8", errors="replace")))
    ]
    assert found == []


def test_no_file_holds_both_sides_of_an_unfinished_merge():
    marked = [
        path.relative_to(REPOSITORY)
        for path in committed_text_files()
        if re.search(r"^(<{7}|>{7}) ", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    ]
    assert marked == []
