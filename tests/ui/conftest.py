"""Fixtures for the pages of a real service, over HTTP and in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.api.conftest import Service, client, running, secret, service, worker

__all__ = ["client", "running", "secret", "service", "worker"]

expect.set_options(timeout=20_000)  # for a busy machine: an idle one needs a fraction of a second

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
_CHROMIUM = shutil.which("chromium")
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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Starts a browser for one module. Its thread has a running event loop, and other tests start one too."""
    if _CHROMIUM is None:
        pytest.skip("there is no chromium here: install Debian's package")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser, service: Service) -> Iterator[BrowserContext]:
    context = chromium.new_context(base_url=service.url, viewport={"width": 1280, "height": 860})
    context.set_default_timeout(20_000)
    yield context
    context.close()


class Faults(list[str]):
    """Errors in pages: failed scripts, and what the policy blocked."""

    def watch(self, page: Page) -> None:
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("dialog", lambda dialog: self.append(f"a dialog: {dialog.message}"))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "the server responded with a status of 4" not in message.text:
            self.append(message.text)


@pytest.fixture
def page(context: BrowserContext, secret: str) -> Iterator[Page]:
    """A page of a signed-in user. Fails at the end if it had errors."""
    faults = Faults()
    page = context.new_page()
    faults.watch(page)
    page.goto("/")
    page.fill("#key", secret)
    page.click("button.main")
    page.wait_for_url("**/graders")
    yield page
    assert not faults


def shoot(page: Page, name: str) -> None:
    """Takes screenshots for review: light, dark and narrow."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    wide = page.viewport_size
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png", animations="disabled")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    page.screenshot(path=SCREENSHOTS / f"{name}-narrow.png", animations="disabled")
    assert wide is not None
    page.set_viewport_size(wide)
