"""Fixtures for the pages of a real service, over HTTP and in a real browser."""

import os
import shutil
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from tests.api.conftest import Service, client, running, secret, service, worker
from ui.templates import static

__all__ = ["client", "running", "secret", "service", "worker"]

expect.set_options(timeout=20_000)  # for a busy machine: an idle one needs a fraction of a second

_CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")  # the shell takes half the CPU time
_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def redis_url(redis_url: str) -> str:
    """A database for these tests."""
    return redis_url.replace("?db=2", "") + "?db=3"


@pytest.fixture
def browse(service: Service, secret: str) -> Iterator[httpx.Client]:
    """A signed-in client that acts as a browser and follows no redirects."""
    with httpx.Client(base_url=service.url, timeout=60, headers={"Sec-Fetch-Site": "same-origin"}) as browse:
        answer = browse.post("/ui/sign-in", data={"key": secret, "next": ""})
        assert answer.status_code == 303, answer.text
        yield browse


class Faults(list[str]):
    """Errors in pages: failed scripts, and what the policy blocked."""

    def watch(self, page: Page) -> None:
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("dialog", lambda dialog: self.append(f"a dialog: {dialog.message}"))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "the server responded with a status of 4" not in message.text:
            self.append(message.text)


@pytest.fixture(scope="module")
def tab(running: Service) -> Iterator[tuple[Page, Faults]]:
    """Starts a browser for one module. Its thread has a running event loop, and other tests start one too."""
    if _CHROMIUM is None:
        pytest.skip("there is no chromium here: install Debian's package")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        page, faults = browser.new_page(base_url=running.url, viewport={"width": 1280, "height": 860}), Faults()
        page.set_default_timeout(20_000)
        faults.watch(page)
        yield page, faults
        browser.close()


@pytest.fixture
def page(tab: tuple[Page, Faults], service: Service, secret: str) -> Iterator[Page]:
    """A page of a signed-in user. Fails at the end if it had errors."""
    page, faults = tab  # the same for all tests: the process of a new one takes a quarter of a second
    headers = {"Sec-Fetch-Site": "same-origin"}
    signed_in = page.request.post("/ui/sign-in", form={"key": secret}, headers=headers, max_redirects=0)
    assert signed_in.status == 303
    faults.clear()
    yield page
    found = list(faults)
    page.goto(static("pages.css"))
    page.evaluate("localStorage.clear()")
    page.context.clear_cookies()
    assert not found


def fits_phone(page: Page, name: str) -> None:
    """Asserts that the page fits a phone. Takes screenshots for review if GRADEBOX_TESTS_SCREENSHOTS names a folder."""
    pictures, wide = os.environ.get("GRADEBOX_TESTS_SCREENSHOTS"), page.viewport_size
    assert wide is not None
    for scheme in ("dark", "light") if pictures else ():
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=f"{pictures}/{name}-{scheme}.png", animations="disabled")
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("document.querySelectorAll('details.panel').forEach(panel => { panel.open = true })")
    page.wait_for_timeout(300)
    if pictures:
        page.screenshot(path=f"{pictures}/{name}-narrow.png", animations="disabled")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    heights = page.locator("tbody tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert max(heights, default=0) <= 200  # a column of one letter makes rows of 400
    page.set_viewport_size(wide)
