"""The pages in a real Chromium: an owner approves a job, at the width of a desk and of a telephone."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deadlines import GENEROUS_S
from federation import Analyst, pca_job, random_values, tables_of
from pages import TOKEN, DeploymentWithPages, page_folder
from playwright.sync_api import sync_playwright

from demo.local_deployment import ANALYST_NAME, COORDINATOR_NAME

pytestmark = pytest.mark.slow  # browsers take seconds to start

PARTIES = ("bank", "hospital", "telco")
ASKS = {"policy.automatic": {"max_epsilon_per_job": 0.001, "analysts": [ANALYST_NAME]}}
WIDTHS = {"desk": (1280, 800), "telephone": (390, 844)}
MIN_CONTRAST = 4.5
"""Of normal text: WCAG 2.2, 1.4.3, level AA."""

CONTRASTS = """
() => {
  const parse = text => {
    const m = text.match(/[\\d.]+/g).map(Number);
    return [m[0], m[1], m[2], m.length > 3 ? m[3] : 1];
  };
  const linear = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const c = parse(getComputedStyle(node).backgroundColor);
      if (c[3] === 1) return c;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [20, 24, 28] : [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
    if (!text || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = light(parse(node.closest("svg") ? style.fill : style.color)), paper = light(behind(node));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    found.push([text.slice(0, 40), Math.round(ratio * 100) / 100]);
  }
  return found;
}
"""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    tables = tables_of({name: random_values((400, 2), seed) for seed, name in enumerate(PARTIES)}, folder)
    pages = {"bank": {"token_file": "token"}, COORDINATOR_NAME: {}}
    with DeploymentWithPages(page_folder(folder), tables, pages=pages, policy={"bank": ASKS}) as running:
        yield running


@pytest.fixture(scope="module")
def chromium():
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Looking:
    """A browser of some size that notes what it asked for, and what it complained about."""

    def __init__(self, chromium, size: str, scheme: str = "light") -> None:
        width, height = WIDTHS[size]
        self.context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.asked, self.complaints = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def check(self, base: str) -> None:
        """Nothing comes from elsewhere, all text can be read, and nothing is wider than the window."""
        assert [url for url in self.asked if not url.startswith((base, "data:"))] == []
        assert [text for text in self.complaints if "403" not in text] == []
        contrasts = self.page.evaluate(CONTRASTS)
        assert len(contrasts) > 3
        assert [one for one in contrasts if one[1] < MIN_CONTRAST] == []
        width, window = self.page.evaluate("() => [document.documentElement.scrollWidth, window.innerWidth]")
        assert width <= window
        inputs = "[...document.querySelectorAll('input:not([type=hidden], [hidden])')]"
        assert self.page.evaluate(f"() => {inputs}.filter(i => !i.labels.length).length") == 0
        assert self.page.evaluate("() => document.documentElement.lang") == "en"
        assert self.page.locator("h1").count() == 1


def elsewhere(work, *arguments):
    """Call an analyst's function in a thread: playwright has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, *arguments).result()


def until_asked(deployment) -> str:
    analyst = Analyst(deployment)
    job_id = elsewhere(analyst.submit, pca_job(PARTIES, title="Which columns of visits and payments go together?"))
    end_s = time.monotonic() + GENEROUS_S
    while not (view := elsewhere(analyst.show, job_id)).waits_for_owners_of:  # the coordinator hears of it last
        assert time.monotonic() < end_s, view
        time.sleep(0.05)
    return job_id


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", WIDTHS)
def test_an_owner_logs_in_and_approves_and_the_result_is_seen(deployment, chromium, size, scheme, tmp_path):
    job_id = until_asked(deployment)
    bank, hub = (f"http://{deployment.page_at[name]}/" for name in ("bank", COORDINATOR_NAME))
    owner, host = Looking(chromium, size, scheme), Looking(chromium, size, scheme)

    def shot(looking: Looking, name: str) -> None:
        looking.page.screenshot(path=str(tmp_path / f"{name}.png"), full_page=True)

    owner.page.goto(bank)
    assert owner.page.url == bank + "login"
    owner.page.get_by_label("Token").fill("wrong, wrong, wrong")
    owner.page.get_by_role("button", name="Log in").click()
    assert owner.page.get_by_role("alert").inner_text() == "This is not the token."
    shot(owner, "login")
    owner.check(bank)
    owner.page.get_by_label("Token").fill(TOKEN)
    owner.page.get_by_role("button", name="Log in").click()
    card = owner.page.get_by_role("region", name=job_id)
    assert "Which columns of visits and payments go together?" in card.inner_text()
    shot(owner, "requests")
    owner.check(bank)
    host.page.goto(hub)
    assert "waits for the owner of bank" in host.page.get_by_role("row", name=job_id).inner_text()
    shot(host, "jobs")
    host.check(hub)
    card.get_by_role("button", name="Approve").click()
    owner.page.wait_for_url(bank)
    assert elsewhere(Analyst(deployment).wait, job_id).state == "DONE"
    deployment.report("bank", job_id)
    host.page.get_by_role("link", name=job_id).click()
    host.page.wait_for_url(f"{hub}jobs/{job_id}")
    assert host.page.get_by_role("img").count() >= 1
    shot(host, "job")
    host.check(hub)
    owner.page.get_by_role("link", name="Budget").click()
    owner.page.wait_for_url(f"{bank}budget")
    assert owner.page.get_by_role("img").count() == 1
    shot(owner, "budget")
    owner.check(bank)
    for looking, base, name in ((owner, bank, "members-party"), (host, hub, "members")):
        looking.page.get_by_role("link", name="Members").click()
        looking.page.wait_for_url(f"{base}members")
        shot(looking, name)
        looking.check(base)
    assert Path(tmp_path / "members.png").stat().st_size > 5000


def test_the_first_paint_waits_for_the_page_and_its_style_sheet_and_nothing_else(deployment, chromium):
    looking, hub = Looking(chromium, "desk"), f"http://{deployment.page_at[COORDINATOR_NAME]}/"
    looking.page.goto(hub, wait_until="load")
    assert [url for url in looking.asked if not url.startswith("data:")] == [hub, f"{hub}style.css"]


def test_it_works_with_scripts_forbidden_and_by_keyboard_alone(deployment, chromium):
    job_id = until_asked(deployment)
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"http://{deployment.page_at['bank']}/")
    page.get_by_label("Token").press_sequentially(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("region", name=job_id).get_by_label("Reason").focus()
    page.keyboard.type("not before June")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"http://{deployment.page_at['bank']}/")
    assert "not before June" in elsewhere(Analyst(deployment).wait, job_id).reason
