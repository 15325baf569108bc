"""What mkdocs cannot do by itself: pages that follow from the code, and links out of `docs/`.

The Markdown of `docs/` is written to be read in the repository, where links lead to examples, to code and to README.md.
The site shows each such file as a page of its own, so that no link of it leads to a place that a reader may not have.
"""

import json
import posixpath
import re
from pathlib import Path

from command_options import command_reference
from configuration import configuration_reference
from error_codes import error_codes
from job_parameters import job_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from python_names import python_reference

REPOSITORY = Path(__file__).resolve().parents[2]


GENERATED = {
    "reference/commands.md": command_reference,
    "reference/configuration.md": configuration_reference,
    "reference/errors.md": error_codes,
    "reference/jobs.md": job_reference,
    "reference/python.md": python_reference,
}
FOUND_LAST = ("audit", "corrections", "decisions/", "reference/", "repository/")
"""Pages that name nearly every word: a search shows them below the guides."""

LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
LANGUAGES = {".toml": "toml", ".py": "python", ".yml": "yaml", ".sh": "sh"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the code says of itself, and the files of the repository that pages link to."""
    for uri, write in GENERATED.items():
        files.append(File.generated(config, uri, content=write()))
    waiting = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    while waiting:
        uri, text = waiting.pop()
        for path in _outside(uri, text):
            shown = _page_of(path)
            if shown not in files.src_uris:
                content = _content_of(path)
                files.append(File.generated(config, shown, content=content))
                waiting.append((shown, content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links out of `docs/` lead to the page that shows the file, and links to folders to their first page."""
    here = page.file.src_uri
    if here.startswith(FOUND_LAST) and here != "repository/README.md":
        page.meta["search"] = {"boost": 0.01}

    def rewritten(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        path = _path_of(here, target)
        if path is None:
            return match[0]
        return posixpath.relpath(_page_of(path), posixpath.dirname(here) or ".") + anchor

    return LINK.sub(rewritten, markdown)


def notebook_as_page(text: str, path: str) -> str:
    """Return a notebook as Markdown, its code between the lines; the first cell is its text with the heading.

    Args:
        text: of the file, JSON. Notebooks are kept without outputs, so there are none to show.
        path: in the repository.
    """
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"````python\n{source}\n````")
    note = f"The notebook `{path}` without its outputs: run it and see."
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def _outside(uri: str, text: str) -> list[Path]:
    paths = [_path_of(uri, match[1]) for match in LINK.finditer(text)]
    return [path for path in paths if path is not None and not path.is_relative_to(REPOSITORY / "docs")]


def _path_of(uri: str, target: str) -> Path | None:
    """Return the file of the repository that a link means, None where mkdocs finds it by itself."""
    home = _source_of(uri).parent
    path = (home / target).resolve()
    if not path.is_relative_to(REPOSITORY) or not path.exists():
        return None  # mkdocs says that it leads nowhere
    if uri.startswith("repository/") or not path.is_relative_to(REPOSITORY / "docs") or path.is_dir():
        return path
    return None


def _source_of(uri: str) -> Path:
    """Return the file that a page was made of."""
    if uri.startswith("repository/"):
        path = REPOSITORY / uri.removeprefix("repository/")
        return path if path.exists() else path.with_suffix("")
    return REPOSITORY / "docs" / uri


def _page_of(path: Path) -> str:
    if path.is_relative_to(REPOSITORY / "docs"):
        inside = path.relative_to(REPOSITORY / "docs")
        return (inside / "README.md" if path.is_dir() else inside).as_posix()
    inside = path.relative_to(REPOSITORY)
    return f"repository/{inside}" if path.suffix == ".md" else f"repository/{inside}.md"


def _content_of(path: Path) -> str:
    if path.is_dir():
        listed = sorted(one.name for one in path.iterdir() if one.is_file())
        return "\n".join([f"# {path.name}", "", *(f"* `{name}`" for name in listed), ""])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".ipynb":
        return notebook_as_page(text, path.relative_to(REPOSITORY).as_posix())
    return f"# {path.relative_to(REPOSITORY)}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}````\n"
