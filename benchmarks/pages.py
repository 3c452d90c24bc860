"""The web pages: their size, the memory of each further page, and how much open editors slow down scoring.

The browser's part (the time until a mark is on its line) is tested in tests/ui.
"""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median

import httpx

from benchmarks import processes, threads, timing
from benchmarks.results import MEBIBYTES, MILLIS, TIMES, Results
from benchmarks.scale import Scale
from benchmarks.service import Service, running

PAGES = "pages"
_EDITORS = 50
_EACH_S = 30.0  # between two checks of one editor, whose user types, reads and thinks
_LOADS = 400
_FIRST = ("pages.css", "htmx.js", "pages.js", "editor.js")


def measure(results: Results, scale: Scale) -> None:
    """Measures the API and one worker on two cores."""
    with timing.pinned(2), running(graders=["regex"]) as service, _signed_in(service) as browser:
        _weight(results, browser)
        _time(results, browser)
        _memory(results, service, browser)
        _beside(results, scale, service, browser)


@contextmanager
def _signed_in(service: Service) -> Iterator[httpx.Client]:
    headers = {"Sec-Fetch-Site": "same-origin", "Accept-Encoding": "gzip"}
    with httpx.Client(base_url=service.url, timeout=60, headers=headers) as browser:
        browser.post("/ui/sign-in", data={"key": service.key})
        yield browser


def _weight(results: Results, browser: httpx.Client) -> None:
    """Measures the size of what a browser loads the first time."""
    sizes = [len(gzip.compress(browser.get(f"/ui/static/{name}").content, 6)) for name in _FIRST]
    sizes.append(len(gzip.compress(_editor(browser).content, 6)))
    results.add(PAGES, "first load of the editor", sum(sizes) / 1024, "KiB", target=250.0, at_most=True)


def _editor(browser: httpx.Client) -> httpx.Response:
    return browser.get("/ui/projects/default/graders/regex").raise_for_status()


def _time(results: Results, browser: httpx.Client) -> None:
    """Times requests without a browser, until the last byte."""
    loads = [timing.seconds(lambda: _editor(browser)) for _ in range(50)]
    checks = [timing.seconds(partial(_check, browser, number)) for number in range(50)]
    results.add(PAGES, "the editor's page", median(loads) * 1000, MILLIS)
    note = f"slowest of {len(checks)}: {max(checks) * 1000:.0f} ms; 350 ms pass between the last key and this"
    took = median(checks) * 1000
    results.add(PAGES, "the checks of what is typed", took, MILLIS, target=150.0, at_most=True, note=note)


def _check(browser: httpx.Client, number: int) -> None:
    source = f"{threads.source('regex')}\n# {number}\n"
    samples = '{"id": "a", "completion": "#### 4", "metadata": {"answer": "4"}}'
    fields = {"source": source, "samples": samples, "isolation": "auto", "timeout_s": "5", "memory_mb": "256"}
    browser.post("/ui/projects/default/check", data=fields).raise_for_status()


def _memory(results: Results, service: Service, browser: httpx.Client) -> None:
    api = service.role("api")
    for _ in range(100):
        _editor(browser)
    before = processes.rss(api)
    for _ in range(_LOADS):
        _editor(browser)
    each = max(0.0, processes.rss(api) - before) / _LOADS * 1024
    note = f"of the API, over {_LOADS} pages; it has {before:.0f} {MEBIBYTES}"
    results.add(PAGES, "memory for a further page", each, "KiB", target=50.0, at_most=True, note=note)


def _beside(results: Results, scale: Scale, service: Service, browser: httpx.Client) -> None:
    """Times a batch without editors, and while each editor checks its text every 30 seconds."""
    count = scale.threads * 4
    path = threads.file(count)
    service.score("regex", path, count)
    ended = threading.Event()

    def write(number: int) -> None:
        ended.wait(_EACH_S * number / _EDITORS)
        while not ended.is_set():
            _check(browser, number)
            ended.wait(_EACH_S)

    alone = [service.score("regex", path, count) for _ in range(5)]
    people = [threading.Thread(target=write, args=(number,)) for number in range(_EDITORS)]
    for one in people:
        one.start()
    ended.wait(_EACH_S / 2)  # by then half of the editors have begun
    beside = [service.score("regex", path, count) for _ in range(5)]
    ended.set()
    for one in people:
        one.join()
    found = timing.ratio(beside, alone)
    note = f"{count:,} threads, regex; {_EDITORS} editors, a check each {_EACH_S:g} s; over the same alone"
    results.add(PAGES, "scoring beside open editors", found, TIMES, target=1.1, at_most=True, note=note)
