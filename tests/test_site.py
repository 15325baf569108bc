"""The pages of the site that follow from the code say something of everything; `make site` builds them."""

import importlib
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import expect, sync_playwright
from pydantic import BaseModel

from analyses.job.job import Job
from analyses.registry import OFFERED
from cli.main import SUBCOMMANDS

REPOSITORY = Path(__file__).parent.parent
GENERATORS = REPOSITORY / "docs" / "site"


@pytest.fixture(scope="module")
def generator():
    """Import a module that writes pages, as mkdocs does: from its own folder."""

    def imported(name: str) -> ModuleType:
        sys.path.insert(0, str(GENERATORS))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(GENERATORS))

    return imported


def test_every_field_of_every_file_is_explained(generator):
    models = generator("models")
    tops = [model for _, _, model in generator("configuration").FILES] + [one.parameters for one in OFFERED] + [Job]
    every = {inner for top in tops for _, inner in models.models_in(top)} | set(tops)
    silent = [
        f"{model.__name__}.{name}"
        for model in every
        for name in model.model_fields
        if not models.described_attributes(model).get(name)
    ]
    assert silent == []
    assert len(every) > 30


def test_fields_are_shown_with_their_words_values_and_defaults(generator):
    class Section(BaseModel):
        """A section.

        Attributes:
            first, second: two numbers
                in two lines.
            third: a choice.
        """

        first: int
        second: float = 2.5
        third: bool = False

    assert generator("models").fields_of(Section)[2:] == [
        "| `first` | two numbers in two lines. | whole number | required |",
        "| `second` | two numbers in two lines. | number | `2.5` |",
        "| `third` | a choice. | `true` or `false` | `false` |",
        "",
    ]


def test_every_command_and_option_is_listed(generator):
    page = generator("command_options").command_reference()
    assert [name for name in SUBCOMMANDS if f"## `moiety {name}`\n" not in page] == []
    assert "-completion`" not in page
    assert "* `--noted &lt;str>`" not in page
    assert "* `--noted <str>`: A head that `moiety budget show` printed earlier" in page


class Loaded(HTMLParser):
    """Gathers the addresses from which a browser fetches something when it shows a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        if tag != "a" and given.get("rel") not in {"canonical", "next", "prev"}:
            self.addresses += [given[name] for name in ("src", "href", "data", "poster") if name in given]
            self.addresses += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]
        self.addresses += named_in_style(given.get("style", ""))
        if "mermaid" in given.get("class", "").split():  # the theme's script then fetches what draws it
            self.addresses.append("https://unpkg.com/mermaid")

    def handle_data(self, data):
        if self.cdata_elem == "style":
            self.addresses += named_in_style(data)


def named_in_style(style: str) -> list[str]:
    return re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""", style)


def from_elsewhere(addresses: list[str]) -> list[str]:
    return [address for address in addresses if re.match(r"(?!data:)([a-zA-Z][a-zA-Z+.-]*:|//)", address)]


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://a.example/b.js"></script>',
        '<link rel="stylesheet" href="//a.example/b.css">',
        '<link rel="preconnect" href="https://a.example" crossorigin>',
        '<img src="c.png" srcset="c.png, https://a.example/b.png 2x">',
        '<iframe src="http://a.example"></iframe>',
        '<p style="background: url(https://a.example/b.png)">',
        '<style>@import "https://a.example/b.css";</style>',
        '<pre class="mermaid">',
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(page):
    assert len(from_elsewhere(Loaded(page).addresses)) == 1


def test_make_site_fails_where_a_link_leads_nowhere(tmp_path):
    """With `--quiet` mkdocs counts no warning, and `--strict` does nothing."""
    (options,) = re.findall(r"mkdocs build (.+)$", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[a page](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: broken\n")
    command = [sys.executable, "-m", "mkdocs", "build", *options.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return folder.resolve()


@pytest.mark.slow
def test_the_built_site_loads_nothing_from_elsewhere(site):
    loaded = {page: Loaded(page.read_text()).addresses for page in site.rglob("*.html")}
    loaded |= {style: named_in_style(style.read_text()) for style in site.rglob("*.css")}
    named = {str(file.relative_to(site)): from_elsewhere(addresses) for file, addresses in loaded.items()}
    assert {name: addresses for name, addresses in named.items() if addresses} == {}
    index = site / "index.html"
    assert all((index.parent / one.partition("?")[0]).exists() for one in loaded[index] if not one.startswith("data:"))
    assert len(loaded) > 30


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("missing values", "Bring a table"),
        ("decimal comma", "Bring a table"),
        ("which job", "Which job for which question"),
        ("without a registry", "Containers without a registry"),
    ],
)
def test_the_search_of_the_built_site_finds_the_page_that_is_meant(site, browser, words, page):
    """In a folder, without a server, as a reader types it."""
    shown = browser.new_page()
    shown.goto(f"{site.as_uri()}/index.html")
    shown.get_by_role("textbox", name="Search").press_sequentially(words)
    found = shown.locator(".md-search-result__item > a h1")
    expect(found.filter(has_text=page).first).to_be_visible()
    assert page in found.all_inner_texts()[:3]
    shown.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", ["index.html", "analyses/clustering.html"])
def test_no_page_is_wider_than_the_window_and_its_pictures_are_there(site, browser, name, width, scheme):
    shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown.goto(f"{site.as_uri()}/{name}")
    assert shown.evaluate("() => document.documentElement.scrollWidth") == width
    assert shown.evaluate("() => [...document.images].filter(one => !one.naturalWidth).length") == 0
    assert shown.locator("body").get_attribute("data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]
    shown.close()
