"""Tests of batches in the browser: progress, histogram, errors, table, rows, comparison, agreement."""

import csv
import io
import json
import re
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from examples.model_server import ModelServer
from gradebox import Client
from gradebox.outcome import Outcome
from gradebox.schemas import AwaitedServer
from storage.spool import lost_files
from storage.statistics.summary import NOT_MADE
from tests.api.conftest import GOOD, PROJECT, Service, create, finished
from tests.api.routes.conftest import here
from tests.api.routes.test_asking import register, server
from tests.earlier_outcomes import in_earlier_form
from tests.gradebox.making import batch as running
from tests.ui.conftest import Faults, fits_phone
from tests.waiting import eventually
from ui import graders
from ui.batches import pace
from ui.templates import rendered

__all__ = ["here", "server"]

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
BATCHES = "/ui/projects/default/batches"
LINES = {"Content-Type": "application/x-ndjson"}
MIXED = """from gradebox import Score


async def grade(thread):
    number = int(thread.completion())
    if number % 10 == 3:
        raise ValueError(f"number {number} is bad")
    if number % 10 == 7:
        return thread.metadata["missing"]
    return Score(number % 10 / 10, reason=f"it is {number}")
"""
SLOW = """import time


async def grade(thread):
    time.sleep(0.05)
    return 1
"""
GROUP_HEAD = "async def grade(threads: list[StringThread]) -> list[float]:\n"
GROUPS = f"""from gradebox import NotApplicable, Score


{GROUP_HEAD}    said = [thread.completion() for thread in threads]
    if said == ["crash"]:
        raise NotApplicable("a group of one", details={{"only": 1}})
    found = []
    for own in said:
        if own == "off":
            found.append(NotApplicable("it is off", details={{"is": own}}))
        elif not own:
            found.append(ValueError("it says nothing"))
        else:
            found.append(Score(len(own), reason="by length", values={{"size": 1}}, details={{"said": own}}))
    return found
"""
HOSTILE = "</td><img src=x onerror='window.hacked=1'><script>window.hacked=1</script>{{7*7}}"


def submit(client: httpx.Client, count: int, key: str = "mixed", source: str = MIXED) -> str:
    create(client, key, source)
    return score(client, count, key)


def score(client: httpx.Client, count: int, *keys: str) -> str:
    threads = b"".join(
        b'{"id": "t%d", "prompt": "Say a number", "completion": "%d", "metadata": {"good": %d}}\n' % (n, n, n % 2)
        for n in range(count)
    )
    query = "&".join(f"grader={key}" for key in keys)
    answer = client.post(f"{PROJECT}/batches?{query}", content=threads, headers=LINES)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def scored(client: httpx.Client, count: int, key: str = "mixed", source: str = MIXED) -> str:
    """A finished batch of this many threads, by a new grader."""
    batch = submit(client, count, key, source)
    finished(client, batch)
    return batch


def of_threads(client: httpx.Client, key: str, threads: list[Any]) -> str:
    """A finished batch of these threads."""
    batch = client.post(f"{PROJECT}/batches", json={"graders": [{"key": key}], "threads": threads}).json()["id"]
    finished(client, batch)
    return str(batch)


def rows(page: Page) -> list[str]:
    return page.locator("tr[data-row] td:first-child").all_inner_texts()


def test_a_batch_is_looked_through(page: Page, client: httpx.Client) -> None:
    batch = scored(client, 300)
    page.goto("/ui/projects/default/graders")
    expect(page.locator("tr[data-row]")).to_contain_text("60 exception of 300")
    fits_phone(page, "graders")
    page.goto(BATCHES)
    page.click(f"text={batch}")
    expect(page.locator("h1")).to_contain_text(batch)
    assert rows(page) == [str(n) for n in range(50)]
    expect(page.locator("h2").first).to_have_text("60 errors")
    expect(page.locator(".bar .quiet").first).to_contain_text("s after its start")
    expect(page.locator("dl.facts")).to_contain_text("pass (at least 1)")
    fits_phone(page, "batch")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("h1 button:text-is('copy')")
    expect(page.locator("h1 button")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == batch
    page.locator("svg.histogram a").last.click()
    expect(page.locator("form.bar .quiet").first).to_contain_text("30 outcomes in bar 10, 0.81 to 0.9")
    expect(page.locator("svg.histogram a[aria-current]")).to_have_count(1)
    assert set(rows(page)) <= {str(n) for n in range(9, 300, 10)}
    page.select_option("select[name=sort]", "-index")
    page.click("text=Filter")
    expect(page.locator("tr[data-row] td:first-child").nth(1)).to_have_text("289")  # still of the bar
    page.get_by_text("all outcomes", exact=True).click()
    page.select_option("select[name=sort]", "-score")
    page.click("text=Filter")
    page.click("text=Next page")
    assert "sort=-score" in page.url
    assert "page=2" in page.url
    assert rows(page)[0] == "98"
    page.click("summary:has-text('exception')")
    first = page.locator("details.panel table tr").first
    expect(first.locator(".cut")).to_contain_text("number # is bad")
    expect(first.locator(".cut")).to_contain_text("number 3 is bad")
    expect(first.locator("a").first).to_have_text("line 7")
    page.click(".chip:has-text('exception 60')")
    assert set(rows(page)) <= {str(n) for n in range(300) if n % 10 in (3, 7)}
    page.click("text=test these in the editor")
    expect(page.locator("#report tbody tr")).to_have_count(50)
    page.go_back()
    page.click("text=20 at random")
    expect(page.locator("#report tbody tr")).to_have_count(20)
    page.go_back()
    page.locator("tr[data-row] a[data-htmx-powered]").first.wait_for()  # the browser may lose keys before that
    page.keyboard.press("j")
    dialog, errors = page.locator("dialog"), page.locator("details.panel summary").first
    was_open = errors.evaluate("summary => summary.parentElement.open")
    errors.press("Enter")  # opens or closes the errors, and not the selected row
    page.wait_for_timeout(300)
    assert errors.evaluate("summary => summary.parentElement.open") is not was_open
    expect(dialog).not_to_be_visible()
    errors.blur()
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("number 3 is bad")
    expect(dialog).to_contain_text('"good": 1')
    fits_phone(page, "row")
    page.keyboard.press("j")
    expect(dialog).to_contain_text("KeyError")
    page.keyboard.press("k")
    expect(dialog).to_contain_text("number 3 is bad")
    row_page = f"{BATCHES}/{batch}/rows/3"
    expect(dialog.get_by_role("link", name="Thread 3")).to_have_attribute("href", f"{row_page}?grader=mixed%401")
    dialog.get_by_text("Test in the editor").click()
    page.wait_for_url("**/graders/mixed?sample=*")
    expect(page.locator("code-editor#samples")).to_be_visible()
    expect(page.locator("#report")).to_contain_text("number 3 is bad")
    page.goto(row_page)
    fits_phone(page, "row-page")


EARLY = """
if (location.hash === "#early") {
  const later = window.setTimeout;
  window.setTimeout = (call, ms, ...more) => later(call, ms ?? 700, ...more);  // htmx starts by a timer
  const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  document.addEventListener("DOMContentLoaded", () => ["j", "Enter"].forEach(press));
}
"""


def test_the_dialog_shows_the_row_of_the_last_key(page: Page, tab: tuple[Page, Faults], client: httpx.Client) -> None:
    batch = scored(client, 3)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/rows/" in request.url else None)
    page.add_init_script(EARLY)
    page.goto(f"{BATCHES}/{batch}#early")
    shown = page.locator("dialog h1")
    expect(shown).to_have_text("Thread 0")
    page.wait_for_timeout(1000)  # by now, htmx has started
    held: list[Route] = []
    page.route("**/rows/1?*", lambda route: held.append(route))
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(shown).to_have_text("Thread 2")
    assert [url.rpartition("/")[2].partition("?")[0] for url in asked] == ["0", "1", "2"]  # each once
    held.pop().continue_()
    page.wait_for_timeout(300)
    expect(shown).to_have_text("Thread 2")
    page.keyboard.press("k")
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)
    held.pop().continue_()
    page.wait_for_timeout(300)
    expect(shown).to_have_count(0)
    page.unroute("**/rows/1?*")
    page.keyboard.press("Enter")
    expect(shown).to_have_text("Thread 1")
    page.route("**/rows/2?*", lambda route: route.abort())
    page.keyboard.press("j")
    expect(page.locator("dialog #notice")).to_contain_text("does not answer")  # the dialog hides the page
    page.unroute("**/rows/2?*")
    tab[1].clear()  # the browser reports it too
    page.keyboard.press("k")
    expect(shown).to_have_text("Thread 1")
    expect(page.locator("main #notice")).to_have_text("")


def test_a_batch_is_watched_and_ended(page: Page, client: httpx.Client) -> None:
    batch = submit(client, 2000, "slow", SLOW)
    page.goto(f"{BATCHES}/{batch}")
    bar = page.locator("progress")
    expect(bar).to_be_visible()
    began = bar.get_attribute("value")
    eventually(lambda: float(bar.get_attribute("value") or 0) > float(began or 0))
    expect(page.locator("dl.facts")).to_contain_text(re.compile("scored[1-9]"))  # without a reload
    expect(page.locator("svg.histogram a[href]")).to_have_count(0)  # nothing is filtered yet
    fits_phone(page, "batch-running")
    page.click("button:has-text('Cancel')")
    expect(page.locator(".chip").first).to_have_text("cancelled")
    expect(page.locator(".bar .warn").first).to_contain_text("of 2,000 outcomes; the others were not scored")
    quick = score(client, 20, "slow")
    page.goto(f"{BATCHES}/{quick}")
    again = page.locator("form[action$='/again'] input[name=grader]")
    again.fill("slow@1")
    expect(page.locator(".chip").first).to_have_text("finished", timeout=15_000)  # without a reload
    expect(again).to_have_value("slow@1")


def test_a_batch_that_is_deleted_while_it_is_watched_is_looked_for_no_more(page: Page, client: httpx.Client) -> None:
    batch = submit(client, 2000, "slow", SLOW)
    page.goto(f"{BATCHES}/{batch}")
    expect(page.locator("progress")).to_be_visible()
    client.post(f"{PROJECT}/batches/{batch}/cancel").raise_for_status()
    client.delete(f"{PROJECT}/batches/{batch}").raise_for_status()
    expect(page.locator("main")).to_contain_text("there is no batch", timeout=15_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4500)
    assert not asked


def test_who_types_a_key_is_left_alone(page: Page, client: httpx.Client, service: Service, secret: str) -> None:
    batch = submit(client, 2000, "slow", SLOW)
    page.goto(f"{BATCHES}/{batch}")
    expect(page.locator("progress")).to_be_visible()
    for name in service.store.redis.keys("gradebox:session:*"):
        service.store.redis.delete(name)
    asked = page.locator("dialog input[type=password]")
    asked.fill("half a key")
    page.wait_for_timeout(4500)
    expect(asked).to_have_value("half a key")
    asked.fill(secret)
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).not_to_be_visible()
    client.post(f"{PROJECT}/batches/{batch}/cancel").raise_for_status()
    expect(page.locator(".chip").first).to_have_text("cancelled", timeout=15_000)


def test_a_row_that_is_read_stays_when_the_batch_is_over(page: Page, client: httpx.Client) -> None:
    batch = submit(client, 4000, "slow", SLOW)
    while not client.get(f"{PROJECT}/batches/{batch}").json()["done"]:
        time.sleep(0.05)
    page.goto(f"{BATCHES}/{batch}")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("dialog h1")).to_have_text("Thread 0")
    client.post(f"{PROJECT}/batches/{batch}/cancel").raise_for_status()
    page.wait_for_timeout(4500)
    expect(page.locator("dialog h1")).to_have_text("Thread 0")
    page.keyboard.press("Escape")
    expect(page.locator(".chip").first).to_have_text("cancelled", timeout=15_000)


def test_two_versions_are_compared_on_the_same_threads(page: Page, client: httpx.Client) -> None:
    batch = scored(client, 40)
    better = MIXED.replace('raise ValueError(f"number {number} is bad")', "return 1.0")
    client.put(f"{PROJECT}/graders/mixed", json={"source": better}).raise_for_status()
    page.goto(f"{BATCHES}/{batch}")
    page.fill("form[action$='/again'] input[name=grader]", "mixed")
    page.click("button:has-text('Score')")
    page.wait_for_url(re.compile(rf"{BATCHES}/(?!{batch})"))
    second = page.url.rpartition("/")[2]
    finished(client, second)
    page.goto(f"{BATCHES}/{batch}")
    assert page.locator("#same option").evaluate_all("options => options.map(one => one.value)") == [second]
    page.fill("input[name=b]", second)
    page.click("button:has-text('Compare')")
    expect(page.locator("h1")).to_have_text("mixed@1 and mixed@2")
    expect(page.locator("p .warn")).to_contain_text("0 are scored only by the first, 4 only by the second")
    expect(page.locator("code-editor .cm-changedLine")).to_have_count(1)
    page.fill("input[name=threshold]", "0.45")
    page.click("button:has-text('Show')")
    fits_phone(page, "compare")


def test_a_button_that_is_clicked_twice_scores_once(page: Page, client: httpx.Client) -> None:
    batch = scored(client, 10)
    page.goto(f"{BATCHES}/{batch}")
    before = len(client.get(f"{PROJECT}/batches").json())
    page.fill("form[action$='/again'] input[name=grader]", "mixed")
    button = page.locator("form[action$='/again'] button")
    button.evaluate("button => { for (const ms of [0, 2, 4, 8, 16]) setTimeout(() => button.click(), ms); }")
    page.wait_for_url(re.compile(rf"{BATCHES}/(?!{batch})"))
    assert len(client.get(f"{PROJECT}/batches").json()) == before + 1
    page.go_back()
    page.fill("form[action$='/again'] input[name=grader]", "mixed@1")
    button.click()  # the page is shown again, so it is sent again
    page.wait_for_url(re.compile(rf"{BATCHES}/(?!{batch})"))
    assert len(client.get(f"{PROJECT}/batches").json()) == before + 2


def test_a_grader_is_held_beside_labels(page: Page, client: httpx.Client) -> None:
    batch = scored(client, 40, "parity", "async def grade(thread):\n    return float(int(thread.completion()) % 2)\n")
    client.post(f"{PROJECT}/graders", json={"key": "human", "kind": "custom"}).raise_for_status()
    labels = b"".join(b'{"index": %d, "score": %d}\n' % (n, n % 4 == 1) for n in range(20))
    recorded = client.put(f"{PROJECT}/batches/{batch}/scores?grader=human", content=labels, headers=LINES)
    recorded.raise_for_status()
    page.goto(f"{BATCHES}/{batch}")
    expect(page.locator("[title='recorded from outside']")).to_contain_text("human@1: mean 0.25 of 20")
    page.click("text=agreement with labels")
    page.fill("input[name=label]", "human@1")
    page.click("button:has-text('Show')")
    expect(page.locator("dl.facts")).to_contain_text("20 of 40")
    assert page.locator(".confusion td").all_inner_texts() == ["10", "5", "0", "5"]
    fits_phone(page, "agreement")
    expect(page.locator("input[type=range]")).to_have_value("0.5")
    page.locator(".confusion td a").last.click()
    assert page.locator("tr[data-row]").first.locator("td").all_inner_texts()[2:4] == ["1", "1"]
    assert rows(page) == [str(n) for n in range(1, 40, 2)]


def test_what_tenants_write_runs_nothing(page: Page, client: httpx.Client) -> None:
    text = json.dumps(HOSTILE)
    body = f"    print({text})\n    if thread.metadata.get('bad'):\n        raise ValueError({text})\n"
    body += f"    return Score(1, reason={text}, details={{{text}: {text}}})\n"
    source = f"from gradebox import Score\n\n\nasync def grade(thread):\n{body}"
    create(client, "hostile", source)
    threads = [
        {"id": HOSTILE, "prompt": HOSTILE, "completion": HOSTILE, "metadata": {HOSTILE: HOSTILE}},
        {"id": "e", "completion": HOSTILE, "metadata": {"bad": True}},
        {"turns": HOSTILE, "id": HOSTILE},
    ]
    batch = of_threads(client, "hostile", threads)
    page.goto(f"{BATCHES}/{batch}")
    expect(page.locator("tr[data-row]")).to_have_count(3)
    expect(page.locator("tr[data-row] td").nth(3)).to_have_text(HOSTILE)
    for summary in page.locator("details.panel summary").all():
        summary.click(position={"x": 2, "y": 2})
    for index in range(3):
        page.goto(f"{BATCHES}/{batch}/rows/{index}")
        expect(page.locator("main")).to_contain_text(HOSTILE)
    page.goto(f"{BATCHES}/{batch}?text={HOSTILE}&sort=-score")
    expect(page.locator("input[name=text]")).to_have_value(HOSTILE)
    assert page.evaluate("window.hacked") is None


def test_outcomes_are_downloaded_and_formulas_are_none(browse: httpx.Client, client: httpx.Client) -> None:
    source = "from gradebox import Score\n\nasync def grade(thread):\n    return Score(1, reason=thread.completion())\n"
    create(client, "says", source)
    said = ["=1+1", "+1", "-1", "@x", "\n=1", "\uff1d1", 'plain, with "quotes"\nand a line', "ü"]
    threads = [{"id": one, "completion": one} for one in said]
    batch = of_threads(client, "says", threads)
    answer = browse.get(f"{BATCHES}/{batch}/outcomes.csv")
    assert f'filename="{batch}.csv"' in answer.headers["content-disposition"]
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["reason"] for row in table] == ["'=1+1", "'+1", "'-1", "'@x", "'\n=1", "'\uff1d1", *said[6:]]
    assert [row["id"] for row in table[:2]] == ["'=1+1", "'+1"]
    lines = browse.get(f"{BATCHES}/{batch}/outcomes.jsonl").text.splitlines()
    assert [json.loads(line)["reason"] for line in lines] == said


def test_outcomes_of_groups_are_downloaded_with_their_scores_and_those_that_an_earlier_checkout_wrote_mean_the_same(
    browse: httpx.Client, client: httpx.Client, service: Service, secret: str
) -> None:
    create(client, "judged", GROUPS)
    create(client, "lengths", f"{GROUP_HEAD}    return [len(one.completion()) for one in threads]\n")
    groups = [{"prompt": "?", "completions": completions} for completions in (["a", "", "off"], ["a", "bc"], ["crash"])]
    graders = [{"key": "judged", "weight": 1.0}, {"key": "lengths", "weight": 0.5}]
    batch = client.post(f"{PROJECT}/batches", json={"graders": graders, "threads": groups}).json()["id"]
    finished(client, batch)

    def seen() -> list[object]:
        pages = [browse.get(f"{BATCHES}/{batch}/{page}").text for page in ("outcomes.csv", "rows/0", "rows/1")]
        return [*pages, *handle.outcomes()]

    with Client(service.url, secret) as users:
        handle = users.batches.get(batch)
        before = seen()
        table = csv.DictReader(io.StringIO(str(before[0])))
        assert ("lengths@1", "1.5", "[1.0, 2.0]") in [(row["grader"], row["score"], row["scores"]) for row in table]
        sent = {"source": GROUPS, "samples": json.dumps(groups[0]), "isolation": "auto"}
        tested = browse.post("/ui/projects/default/check", data=sent).text
        for page in (str(before[1]), tested):
            assert all(text in page for text in ("by length", "it says nothing", "it is off", "&#34;said&#34;"))
        for file in Path(service.store.spool._outcomes(batch, 0, 1)).parent.iterdir():
            file.write_bytes(b"".join(map(in_earlier_form, file.read_bytes().splitlines(keepends=True))))
        assert b'"scores":[{"score":' in client.get(f"{PROJECT}/batches/{batch}/outcomes").content
        assert seen() == before
        whole = handle.refresh(combined=True).combined
        assert whole is not None
        assert (whole.scored, whole.mean, whole.errors, whole.not_applicable) == (1, 2.25, {"exception": 1}, 1)
        for grader in ("judged@1", "lengths@1", "combined"):
            rows = handle.table(grader).rows
            fields = [{name: getattr(row, name) for name in Outcome.__struct_fields__} for row in rows]
            assert [Outcome(**row) for row in fields] == [one for one in handle.outcomes() if one.grader == grader]


def test_a_download_breaks_off_at_a_lost_chunk(browse: httpx.Client, client: httpx.Client, service: Service) -> None:
    batch = scored(client, 8000, "exact", GOOD)
    plan = service.store.batches.plan(batch)
    assert plan is not None
    Path(service.store.spool._outcomes(batch, len(plan.chunks) - 1, 1)).unlink()
    for kind in ("csv", "jsonl"):
        with pytest.raises(httpx.RemoteProtocolError):  # no file that looks complete
            browse.get(f"{BATCHES}/{batch}/outcomes.{kind}")


def test_a_view_that_is_none_says_why(browse: httpx.Client, client: httpx.Client) -> None:
    batch = scored(client, 3, "exact", GOOD)
    for query, said in (
        ("page=x", "page=&#39;x&#39; is not a number"),
        ("page=0", "is not a number from 1"),
        ("bin=10", "is not a number from 0 to 9"),
        ("kind=nothing", "is not one of scored"),
        ("sort=x", "is not one of index"),
        ("low=nan", "low=&#39;nan&#39; is not a number"),
        ("low=1e999", "is not a number"),
        ("grader=nothing", "it has no grader"),
    ):
        answer = browse.get(f"{BATCHES}/{batch}?{query}")
        assert answer.status_code == 422, query
        assert said in answer.text


def test_a_page_beyond_the_last_leads_to_the_last(browse: httpx.Client, client: httpx.Client) -> None:
    batch = scored(client, 60, "exact", GOOD)
    beyond = browse.get(f"{BATCHES}/{batch}?page=20001&sort=score")
    assert beyond.status_code == 303
    shown = browse.get(str(beyond.url.join(beyond.headers["Location"])))
    assert "page 2 of 2" in shown.text
    assert shown.text.count("<tr data-row>") == 10
    assert "No outcome matches" in browse.get(f"{BATCHES}/{batch}?kind=error").text


def test_a_bar_of_the_histogram_does_not_hide_errors(browse: httpx.Client, client: httpx.Client) -> None:
    batch = scored(client, 20)
    assert "4 outcomes</span>" in browse.get(f"{BATCHES}/{batch}?bin=0&kind=error").text
    assert "2 outcomes in bar 1, 0 to 0.09</span>" in browse.get(f"{BATCHES}/{batch}?bin=0&kind=scored").text


def test_a_view_of_a_running_batch_claims_no_filter(browse: httpx.Client, client: httpx.Client) -> None:
    batch = submit(client, 2000, "slow", SLOW)
    shown = browse.get(f"{BATCHES}/{batch}?bin=3&kind=scored&low=0.7&text=x&sort=-score").text
    client.post(f"{PROJECT}/batches/{batch}/cancel").raise_for_status()
    assert "bar 4" not in shown
    assert '<span class="chip">' not in shown  # the progress has the state, and is renewed
    assert "all outcomes" not in shown
    assert '<option value="" selected>all' in shown
    assert '<option value="index" selected>' in shown


def test_a_query_may_have_any_names(browse: httpx.Client, client: httpx.Client) -> None:
    batch = scored(client, 3, "exact", GOOD)
    shown = browse.get(f"{BATCHES}/{batch}?self=1&a%26b=ü%26&sort=score")
    assert shown.status_code == 200
    assert "?self=1&amp;a%26b=%C3%BC%26&amp;sort=score&amp;bin=0" in shown.text


def test_a_batch_that_waits_has_no_time_left() -> None:
    now = datetime.now(UTC)
    started = now - timedelta(seconds=10)
    batch = running(301, total=600).model_copy(update={"created_at": started, "started_at": started})
    values = {"visit": SimpleNamespace(project="default"), "grader": "exact-match@1", "summary": None}
    shown = rendered("_progress.html", batch=batch, pace=pace(batch, now), **values).decode()
    assert "301 of 600 outcomes, 30.1 a second, 10 s left" in shown
    slow = batch.model_copy(update={"total": 600_001})
    shown = rendered("_progress.html", batch=slow, pace=pace(slow, now), **values).decode()
    assert "30.1 a second, 5 h 32 min left" in shown
    server = AwaitedServer(asked="model:judge", kind="unreachable", seconds=40)
    waiting = batch.model_copy(update={"waits_for": [server]})
    shown = rendered("_progress.html", batch=waiting, pace=pace(waiting, now), **values).decode()
    assert "Waiting: model judge has not answered for 40 s." in shown
    assert "left" not in shown


def test_rows_that_are_left_out_of_numbers_are_counted(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "mixed", MIXED)
    threads = [{"id": f"t{n // 2}", "completion": str(n)} for n in range(20)]
    batch, again = (of_threads(client, "mixed", threads) for _ in range(2))
    compared = browse.get(f"/ui/projects/default/compare?a={batch}&b={again}").text
    assert "4 are scored by neither." in compared
    assert "<td>mixed@1 (first)</td>" in compared  # both sides have the same grader
    assert "Vertical: mixed@1 (first); horizontal: mixed@1 (second)" in compared
    assert " rows have an id that an earlier row has: they are paired in order." in compared
    agreement = browse.get(f"{BATCHES}/{batch}/agreement?label=metadata.nothing").text
    assert "metadata.nothing is in no thread" in agreement
    assert "0 of 20; 16 lack a label, 0 a score, 4 both" in agreement
    assert "No row has a score and a label." in agreement
    assert "More than 20" not in agreement
    errors = browse.get(f"{BATCHES}/{batch}").text
    assert "number 3 is bad (line 7)" in errors.partition("<h2>Outcomes")[0]
    assert errors.partition("<h2>Outcomes")[0].count("&#39;missing&#39;") == 1


def test_batches_of_other_threads_are_not_compared(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "exact")
    a, b = (of_threads(client, "exact", [{"id": name, "completion": "4"}]) for name in ("x", "y"))
    shown = browse.get(f"/ui/projects/default/compare?a={a}&b={b}").text
    assert f"Nothing is compared: the rows of batch {a} have other ids than those of {b}" in shown
    for claim in ("The mean of the second", "0 the same", "flipped"):
        assert claim not in shown


def test_combined_outcomes_have_a_table_and_a_histogram(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "mixed", MIXED)
    create(client, "long", "async def grade(thread):\n    return len(thread.completion())\n")
    batch = score(client, 4, "mixed", "long&weight=2&weight=1")
    finished(client, batch)
    shown = browse.get(f"{BATCHES}/{batch}").text
    assert 'href="?grader=combined"' in shown
    combined = browse.get(f"{BATCHES}/{batch}?grader=combined").text
    for part in ('<svg class="histogram"', "mixed@1: ValueError: number 3 is bad", "<dt>scored</dt><dd>3 of 4</dd>"):
        assert part in combined
    for part in (">source", "test these in the editor"):
        assert part in shown and part not in combined


def test_a_weighted_sum_of_means_of_other_completions_says_so(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "mixed", MIXED)
    create(client, "long", "async def grade(thread):\n    return len(thread.completion())\n")
    for count, note in ((3, "weighted sum 1.1<"), (4, "(each mean is of the completions that its grader scored)")):
        batch = score(client, count, "mixed", "long")  # the fourth is an error of `mixed`
        finished(client, batch)
        page = browse.get(f"{BATCHES}/{batch}").text
        assert note in page
        assert ("each mean is of" in page) == (count == 4)


def test_large_scores_and_thresholds_stay_what_they_are(
    browse: httpx.Client, client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services.settings, "bootstrap_resamples", 0)  # does not load SciPy for two rows
    source = "async def grade(thread):\n    return float(thread.metadata.get('good', 0)) * 1e20\n"
    batch = scored(client, 2, "large", source)
    told = browse.get(f"{BATCHES}/{batch}/agreement?grader=large@1&label=metadata.good&threshold=")
    assert "low=1e%2B20" in told.text
    assert "1 outcome" in browse.get(f"{BATCHES}/{batch}?low=1e%2B20&high=1e%2B20").text
    again = browse.post(f"{BATCHES}/{batch}/again", data={"grader": "large@1"}).headers["location"].rpartition("/")[2]
    finished(client, again)
    compared = browse.get(f"/ui/projects/default/compare?a={batch}&b={again}&threshold=1234.56789")
    assert 'value="1234.56789"' in compared.text
    assert "high=1e%2B20" in compared.text  # the highest cell of the heat map


def test_a_summary_that_is_missing_is_said(
    browse: httpx.Client, client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = scored(client, 1, "exact", GOOD)
    found = service.store.batches.get("default", batch).model_copy(update={"summary": [], "summary_error": NOT_MADE})
    monkeypatch.setattr(service.store.batches, "get", lambda *_, **__: found)
    assert NOT_MADE in browse.get(f"{BATCHES}/{batch}").text


def test_a_row_leads_to_graders_of_its_batch_alone(browse: httpx.Client, client: httpx.Client) -> None:
    batch = scored(client, 3, "exact", GOOD)
    row = browse.get(f"{BATCHES}/{batch}/rows/0", params={"grader": "../../../sign-out"}).text
    assert "sign-out?" not in row
    assert f"/graders/exact?sample={batch}:0" in row


def test_what_is_lost_is_said_and_is_no_download(
    browse: httpx.Client, client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = scored(client, 5000, "exact", GOOD)
    assert browse.get(f"{BATCHES}/{batch}").status_code == 200
    spool = Path(service.store.spool._root)
    (spool / "payloads" / f"{batch}.jsonl").unlink()
    shutil.rmtree(spool / "outcomes" / batch)
    for path, status, said in (
        ("", 503, "a part of it is unavailable"),
        ("/rows/3", 404, "is gone from the spool"),
        ("/agreement?label=metadata.good", 503, "a part of it is unavailable"),
        ("/outcomes.csv", 503, "a part of it is unavailable"),
        ("/outcomes.jsonl", 503, "a part of it is unavailable"),
    ):
        answer = browse.get(f"{BATCHES}/{batch}{path}")
        assert answer.status_code == status, path
        assert said in answer.text
    monkeypatch.setattr(lost_files, "SETTLED_S", 0.0)
    for kind in ("csv", "jsonl"):
        answer = browse.get(f"{BATCHES}/{batch}/outcomes.{kind}")
        assert (answer.status_code, "score its threads again" in answer.text) == (410, True)


def test_what_is_not_there_is_said(browse: httpx.Client, client: httpx.Client) -> None:
    batch = scored(client, 3, "exact", GOOD)
    for path in (f"{BATCHES}/{'0' * 20}", f"{BATCHES}/{batch}/rows/3", f"{BATCHES}/x/rows/0"):
        answer = browse.get(path)
        assert answer.status_code == 404, path
        assert "there is no" in answer.text or "has no thread" in answer.text
    assert browse.get(f"{BATCHES}/{batch}/rows/x").status_code == 422
    empty = browse.get(f"{BATCHES}/{batch}?low=5")
    assert "No outcome matches" in empty.text


def test_who_may_only_read_changes_nothing(client: httpx.Client, browse: httpx.Client) -> None:
    batch = scored(client, 3, "exact", GOOD)
    key = client.post("/v1/keys", json={"name": "reader", "projects": ["default"], "role": "read"}).json()
    browse.post("/ui/sign-in", data={"key": key["secret"]})
    shown = browse.get(f"{BATCHES}/{batch}").text
    assert "/again" not in shown
    for action in ("cancel", "retry", "again"):
        refused = browse.post(f"{BATCHES}/{batch}/{action}", data={"grader": "exact"})
        assert refused.status_code == 403
    scorer = client.post("/v1/keys", json={"name": "scorer", "projects": ["default"], "role": "score"}).json()
    browse.post("/ui/sign-in", data={"key": scorer["secret"]})
    assert browse.post(f"{BATCHES}/{batch}/cancel").status_code == 403  # another key's batch
    shown = browse.get(f"{BATCHES}/{batch}").text
    (token,) = re.findall(r'name="once" value="(\w+)"', shown)
    forms = [{"once": token, "grader": grader} for grader in ("exact", "exact", "exact@1")] + [{"grader": "exact"}]
    made = [browse.post(f"{BATCHES}/{batch}/again", data=form).headers["location"] for form in forms]
    assert made[0] == made[1]  # the browser sent it again, because the answer was lost
    assert len(set(made)) == 3
    client.patch(f"{PROJECT}/limits", json={"batch_threads": 1}).raise_for_status()
    assert browse.post(f"{BATCHES}/{batch}/again", data=forms[0]).headers.get("location") == made[0]


def test_a_page_of_a_large_batch_is_quick(browse: httpx.Client, client: httpx.Client) -> None:
    batch = scored(client, 20_000, "exact", GOOD)
    browse.get(f"{BATCHES}/{batch}")  # makes the index
    times = []
    for number in (1, 200, 400):
        began = time.monotonic()
        answer = browse.get(f"{BATCHES}/{batch}?sort=-score&page={number}")
        times.append(time.monotonic() - began)
        assert answer.text.count("data-row") == 50
    assert min(times) < 0.5


def test_the_list_of_graders_has_the_numbers_of_the_last_batch(
    browse: httpx.Client, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(client, 100)
    finished(client, score(client, 2, "mixed"))  # scores 0 and 0.1
    row = browse.get("/ui/projects/default/graders").text.partition("data-row")[2].partition("</tr>")[0]
    assert re.findall(r"<td class=\"number\">(.*?)</td>", row) == ["1", "0.05"]
    assert "none" in row and "of 2<" in row
    create(client, "exact", GOOD)
    finished(client, score(client, 4, "exact", "mixed"))  # the last one is an error of `mixed`
    exact, mixed = browse.get("/ui/projects/default/graders").text.split("data-row")[1:]
    assert "none</a>" in exact and "of 4<" in exact
    assert "1 exception" in mixed and "of 4<" in mixed
    create(client, "unused", GOOD)
    assert "in no batch" in browse.get("/ui/projects/default/graders").text.split("data-row")[3]
    monkeypatch.setattr(graders, "_LOOKED_AT", 3)
    assert "not in the 3 newest batches" in browse.get("/ui/projects/default/graders").text.split("data-row")[3]


def test_what_is_not_applicable_has_a_column_where_there_is_some(page: Page, client: httpx.Client) -> None:
    scored(client, 10)
    page.goto(BATCHES)
    expect(page.locator("tr[data-row]")).to_have_count(1)
    assert "not applicable" not in page.locator("th").all_inner_texts()
    source = "from gradebox import NotApplicable\n\n\nasync def grade(thread):\n"
    source += "    if int(thread.completion()) % 4:\n        raise NotApplicable('no multiple of 4')\n    return 1\n"
    scored(client, 10, "some", source)
    page.goto(BATCHES)
    headings = page.locator("th").all_inner_texts()
    column = page.locator(f"tr[data-row] td:nth-child({headings.index('not applicable') + 1})")
    assert column.all_inner_texts() == ["7", "0"]
    page.locator("tr[data-row] a").first.click()
    expect(page.locator("dl.facts")).to_contain_text("7 not applicable")
    expect(page.locator("main")).not_to_contain_text("weighted sum")
    expect(page.locator("main")).not_to_contain_text("were not scored")
    page.goto("/ui/projects/default/graders")
    expect(page.locator("tr[data-row]").last).to_contain_text("none of 10, 7 not applicable")
    page.goto(BATCHES)
    fits_phone(page, "batches")


def test_a_retry_is_offered_where_it_scores_something(browse: httpx.Client, client: httpx.Client) -> None:
    source = (
        "import time\n\nfrom gradebox import ModelError\n\n\nasync def grade(thread):\n"
        "    number = int(thread.completion())\n    if number < {away}:\n        time.sleep(0.1)\n"
        "        raise ModelError('unreachable', 'the server is away', retryable=True)\n"
        "    if number == 5:\n        raise ModelError('refused', 'the server does not want to')\n"
        "    if number == 6:\n        time.sleep(60)\n    return 1\n"
    )
    for away, said in ((0, ""), (1, "Retry 1 error<"), (3, "Retry 3 errors<")):
        content = {"key": f"away{away}", "source": source.format(away=away), "timeout_s": 0.5}
        client.post(f"{PROJECT}/graders", json=content).raise_for_status()
        batch = score(client, 8, f"away{away}")
        errors = finished(client, batch)["errors"]
        assert errors == {"model": away + 1, "timeout": 1}
        shown = browse.get(f"{BATCHES}/{batch}").text
        assert ("/retry" in shown) == bool(away)
        assert said in shown
    before = client.get(f"{PROJECT}/audit").text.count("batch.retry")
    (token, _) = re.findall(r'name="once" value="(\w+)"', shown)
    for _ in range(2):  # the browser sent it again, because the answer was lost
        assert browse.post(f"{BATCHES}/{batch}/retry", data={"once": token}).status_code == 303
        assert "a second" not in browse.get(f"{BATCHES}/{batch}/progress").text  # five outcomes are of before
        finished(client, batch)
    assert client.get(f"{PROJECT}/audit").text.count("batch.retry") == before + 1
    for path in (BATCHES, "/ui/projects/default/graders", f"/ui/projects/default/compare?a={batch}&b={batch}"):
        assert "4 model, 1 timeout" in re.sub("<[^>]*>", "", browse.get(path).text), path
    scorer = client.post("/v1/keys", json={"name": "scorer", "projects": ["default"], "role": "score"}).json()
    browse.post("/ui/sign-in", data={"key": scorer["secret"]})
    shown = browse.get(f"{BATCHES}/{batch}").text
    assert "/again" in shown
    assert "/retry" not in shown  # the batch of another key


def test_a_batch_of_feedback_says_what_it_is_of(
    browse: httpx.Client, client: httpx.Client, here: None, server: ModelServer
) -> None:
    register(client, server)
    batch = scored(client, 2, "mixed")
    sent = client.post(f"{PROJECT}/batches/{batch}/feedback", json={"model": "small-judge"})
    feedback = sent.raise_for_status().json()["id"]
    shown = browse.get(f"{BATCHES}/{feedback}").text
    assert "Feedback by the model small-judge on failures (threshold 1) of mixed@1 in" in shown
    assert f'href="{BATCHES}/{batch}?grader=mixed%401"' in shown
    assert "/graders/mixed?version=1" in shown
    row = browse.get(f"{BATCHES}/{feedback}/rows/0").text
    for page in (shown, row):  # no grader has this key, and its threads are no samples
        assert "/graders/feedback" not in page
        assert "sample=" not in page
    assert "/again" not in shown
    taken = browse.get("/ui/projects/default/new", params={"sample": f"{feedback}:0"})
    assert (taken.status_code, f"batch {feedback} contains feedback" in taken.text) == (422, True)
    client.post(f"{PROJECT}/batches/{feedback}/cancel").raise_for_status()
    assert "agreement" not in browse.get(f"{BATCHES}/{feedback}").text


def test_each_grader_has_a_column_and_numbers_are_held_beside_numbers(
    page: Page, client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services.settings, "bootstrap_resamples", 0)  # comparing does not load SciPy
    number = "    return Score(int(thread.completion()), reason='it is ' + thread.completion())\n"
    create(client, "number", f"from gradebox import Score\n\n\nasync def grade(thread):\n{number}")
    create(client, "half", "async def grade(thread):\n    return int(thread.completion()) / 2\n")
    batch = score(client, 60, "number", "half")
    finished(client, batch)
    page.goto(f"{BATCHES}/{batch}?grader=half&sort=-score")
    assert page.locator("th.number").all_inner_texts() == ["thread", "score", "number@1", "ms"]
    assert page.locator("tr[data-row]").first.locator("td.number").all_inner_texts()[:3] == ["59", "29.5", "59"]
    page.click("text=compare its graders")
    assert page.locator("tr[data-row] td").all_inner_texts()[:6] == ["t1", "1", "1", "it is 1", "0.5", ""]
    expect(page.locator("table.heat td")).to_have_count(100)
    assert sum(map(int, filter(None, page.locator("table.heat td").all_inner_texts()))) == 60
    fits_phone(page, "compare-graders")
    monkeypatch.setattr("ui.numbers._FLIPS", 5)
    monkeypatch.setattr("ui.numbers._REASONS", 3)
    page.goto(f"{page.url}&threshold=20")
    expect(page.locator("main")).to_contain_text("20 flipped")
    expect(page.locator("main")).to_contain_text("The 5 with the largest change are shown")
    expect(page.locator("main")).to_contain_text("The reasons of the first 3 are shown")
    page.goto(f"{BATCHES}/{batch}/agreement?grader=half&label=number")
    expect(page.locator("table.heat td")).to_have_count(100)
    page.locator("input[type=range]").fill("19.623456")
    expect(page.locator("output")).to_have_text("19.62")
    fits_phone(page, "agreement-threshold")
    page.click("button:has-text('Count')")
    assert page.url.endswith("threshold=19.62")
    assert page.locator(".confusion td").all_inner_texts() == ["20", "0", "20", "20"]
