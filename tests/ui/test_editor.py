"""Tests of writing a grader in the browser."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
import pytest
from playwright.sync_api import Page, expect

from examples.model_server import ModelServer
from sandbox.errors import InfrastructureError
from storage.graders import check_threads
from storage.graders.check_threads import digest
from tests.api.conftest import GOOD, PROJECT, Service, create
from tests.api.routes.conftest import here
from tests.api.routes.test_asking import JUDGE, register, server
from tests.storage.making import proved
from tests.ui.conftest import Faults, fits_phone

__all__ = ["here", "server"]

pytestmark = [pytest.mark.sandbox]
GRADERS = "/ui/projects/default/graders"
HOSTILE = "</code-editor><img src=x onerror='window.hacked=1'><script>window.hacked=1</script>{{7*7}}\"'&"


def write(page: Page, text: str) -> None:
    """Types at the end of the source."""
    page.locator("code-editor#source .cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(text)


def save(page: Page, text: str, said: str) -> None:
    """Types at the end of the source, and saves it."""
    write(page, text)
    page.keyboard.press("Control+s")
    expect(page.locator("#kept")).to_have_text(said)


def open_new(page: Page, client: httpx.Client) -> None:
    """Opens a new grader that passes the checks."""
    create(client)
    page.goto(f"{GRADERS}/exact")
    expect(page.locator(".checks .good")).to_have_count(5)


def sign_in_as(page: Page, client: httpx.Client, role: str) -> None:
    key = client.post("/v1/keys", json={"name": "reader", "projects": ["default"], "role": role}).json()
    page.goto(GRADERS)
    page.click("text=Sign out")
    page.fill("#key", key["secret"])
    page.click("button.main")


def source_of(page: Page) -> str:
    return str(page.locator("code-editor#source").evaluate("editor => editor.value"))


def replace(page: Page, editor: str, text: str) -> None:
    """Sets a text by script. If a coloured selection is typed over, Chromium reports a style that the policy blocks."""
    found = page.locator(f"code-editor#{editor}")
    found.locator(".cm-content").click()
    found.evaluate("(editor, text) => { editor.value = text }", text)


def test_a_grader_is_written_mended_and_saved(page: Page, client: httpx.Client) -> None:
    page.goto(GRADERS)
    fits_phone(page, "graders-empty")
    page.click("text=The right answer")
    expect(page.locator(".checks .good")).to_have_count(5)
    expect(page.locator("#report tbody tr")).to_have_count(2)
    write(page, "\nx == = 1\n")
    failed = page.locator(".checks .bad")
    expect(failed).to_have_count(1)
    assert page.locator("code-editor#source .cm-lint-marker-error").count() == 1
    replace(page, "source", "async def grade(thread):\n    return 1\n")
    expect(page.locator("code-editor#source .cm-lint-marker-warning")).to_have_count(1)
    write(page, "\nx == = 1\n")
    expect(failed).to_have_count(1)
    fits_phone(page, "editor-mistake")
    replace(page, "source", "async def grade(thread):\n    return thread.metadata['missing']\n")
    expect(page.locator(".checks li").nth(4)).to_contain_text("line 2")
    replace(page, "source", GOOD)
    expect(page.locator(".checks .good")).to_have_count(5)
    page.keyboard.press("Control+s")
    page.wait_for_url(f"**{GRADERS}/has-answer")
    assert page.evaluate("Object.keys(localStorage)") == []  # no draft is left
    expect(page.locator("#report tbody tr")).to_have_count(2)  # the samples are kept
    kept = client.get(f"{PROJECT}/graders/has-answer").json()
    assert (kept["version"], kept["test_threads"]) == (1, 2)
    save(page, "# again\n", "Saved: version 2")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#report th").nth(2)).to_have_text("version 2")
    fits_phone(page, "editor")
    page.goto(GRADERS)
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{GRADERS}/has-answer")
    page.goto(f"{GRADERS}/has-answer/diff?old=1&new=2")
    expect(page.locator("code-editor .cm-changedLine")).to_have_count(1)
    client.put(f"{PROJECT}/graders/has-answer", json={"timeout_s": 9}).raise_for_status()
    page.goto(f"{GRADERS}/has-answer/diff?old=2&new=3")
    expect(page.locator("tbody td")).to_have_text(["timeout_s", "5", "9"])
    expect(page.get_by_text("The sources are equal.")).to_be_visible()
    assert (page.goto(f"{GRADERS}/has-answer/diff?old=0&new=2") or pytest.fail()).status == 422


def test_two_people_save_the_same_grader(page: Page, client: httpx.Client) -> None:
    open_new(page, client)
    client.put(f"{PROJECT}/graders/exact", json={"source": GOOD + "# theirs\n"}).raise_for_status()
    write(page, "# mine\n")
    page.keyboard.press("Control+s")
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("Version 2 was saved in the meantime")
    expect(dialog.locator(".cm-changedLine")).to_have_count(1)
    assert client.get(f"{PROJECT}/graders/exact").json()["version"] == 2
    fits_phone(page, "editor-conflict")
    dialog.get_by_text("Open the saved version").click()
    page.wait_for_url("**?version=2")
    assert source_of(page) == GOOD + "# theirs\n"
    page.goto(f"{GRADERS}/exact")
    expect(page.locator("#draft")).to_contain_text("began with version 1, and version 2 was saved since")
    assert source_of(page) == GOOD + "# mine\n"
    fits_phone(page, "editor-draft")
    page.keyboard.press("Control+s")
    dialog.get_by_text("Save mine as version 3").click()
    expect(page.locator("#kept")).to_have_text("Saved: version 3")
    source = client.get(f"{PROJECT}/graders/exact/versions/3").json()["source"]
    assert source == GOOD + "# mine\n"
    save(page, "# and on\n", "Saved: version 4")
    assert page.evaluate("Object.keys(localStorage)") == []
    write(page, "# given up\n")
    client.put(f"{PROJECT}/graders/exact", json={"source": GOOD + "# theirs again\n"}).raise_for_status()
    page.goto(f"{GRADERS}/exact")
    page.click("#discard")
    assert source_of(page) == GOOD + "# theirs again\n"
    assert page.evaluate("Object.keys(localStorage)") == []
    save(page, "# on theirs\n", "Saved: version 6")


def test_samples_stored_during_a_proof_stay(browse: httpx.Client, client: httpx.Client, service: Service) -> None:
    create(client)
    slow = f"import time\n\ntime.sleep(0.4)\n{GOOD}# samples\n"
    fields = {"grader": "exact", "version": "1", "source": slow, "samples": "mine", "stored_samples": digest([])}
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(browse.post, "/ui/projects/default/keep", data=fields)
        time.sleep(0.2)
        theirs = msgspec.structs.replace(proved(GOOD), threads=[b'{"completion":"theirs"}'])
        service.store.graders.update("default", "exact", theirs)
        assert not sent.done(), sent.result().text
    assert (sent.result().status_code, "other test threads" in sent.result().text) == (409, True)
    assert client.get(f"{PROJECT}/graders/exact").json()["version"] == 1
    assert client.get(f"{PROJECT}/graders/exact/threads").json() == {"completion": "theirs"}
    assert "Reload the page" in browse.post("/ui/projects/default/keep", data=fields).text


def test_samples_that_are_stored_in_part_can_be_saved_again(
    browse: httpx.Client, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_threads, "MOST_BYTES", 30)
    create(client)
    fields = {"grader": "exact", "samples": '{"completion":"4"}\n{"completion":"5"}', "stored_samples": digest([])}
    for version in (1, 2):
        answer = browse.post(
            "/ui/projects/default/keep", data=fields | {"version": str(version), "source": f"{GOOD}# {version}\n"}
        )
        assert answer.status_code == 200, answer.text
        fields["stored_samples"] = json.loads(answer.headers["HX-Trigger"])["kept"]["samples"]


def test_samples_that_somebody_else_stores_stay(page: Page, client: httpx.Client) -> None:
    old, theirs, mine = (b'{"id":"%b","completion":"4"}' % name for name in (b"old", b"theirs", b"mine"))

    def store(line: bytes) -> None:  # the same source is no new version
        body = {"source": GOOD, "threads": [json.loads(line)]}
        client.put(f"{PROJECT}/graders/exact", json=body).raise_for_status()

    open_new(page, client)
    store(old)
    page.reload()
    expect(page.locator("#report")).to_contain_text("old")
    store(theirs)
    save(page, "# two\n", "Saved: version 2")
    assert client.get(f"{PROJECT}/graders/exact/threads").content.strip() == theirs
    replace(page, "samples", mine.decode())
    page.click("#keep")
    expect(page.locator("#notice")).to_contain_text("other samples were stored with this grader")
    assert client.get(f"{PROJECT}/graders/exact/threads").content.strip() == theirs
    for _ in range(2):
        page.reload()
        expect(page.locator("#draft")).to_contain_text("Other samples were stored since it began")
    page.goto(f"{GRADERS}/exact?version=1")
    expect(page.locator("#draft")).not_to_be_visible()
    page.goto(f"{GRADERS}/exact")
    for line in (mine, mine.replace(b"mine", b"next")):
        replace(page, "samples", line.decode())
        page.click("#keep")
        expect(page.locator("#kept")).to_have_text("Already saved: version 2")
        assert client.get(f"{PROJECT}/graders/exact/threads").content.strip() == line
    replace(page, "samples", old.decode())
    page.reload()
    expect(page.locator("#draft span")).to_be_empty()


def test_a_save_that_fails_is_not_called_saved(page: Page, client: httpx.Client) -> None:
    open_new(page, client)
    save(page, "# two\n", "Saved: version 2")
    client.delete(f"{PROJECT}/graders/exact").raise_for_status()
    write(page, "# three\n")
    page.keyboard.press("Control+s")
    expect(page.locator("#notice")).to_contain_text("there is no grader")
    expect(page.locator("#kept")).to_have_text("")


def test_why_a_save_failed_is_still_shown_after_the_next_check(page: Page, client: httpx.Client) -> None:
    open_new(page, client)
    client.patch(f"{PROJECT}/graders/exact", json={"locked": True}).raise_for_status()
    write(page, "# two\n")
    with page.expect_response("**/check"):
        page.keyboard.press("Control+s")
    page.wait_for_timeout(200)
    expect(page.locator("#notice")).to_contain_text("is locked")
    client.patch(f"{PROJECT}/graders/exact", json={"locked": False}).raise_for_status()
    page.keyboard.press("Control+s")
    expect(page.locator("#kept")).to_have_text("Saved: version 2")
    expect(page.locator("#notice")).to_have_text("")


def test_a_save_is_told_of_until_it_has_an_answer(page: Page, tab: tuple[Page, Faults], client: httpx.Client) -> None:
    open_new(page, client)
    page.route("**/keep", lambda route: route.abort())
    write(page, "# two\n")
    with page.expect_response("**/check"):
        page.keyboard.press("Control+s")
    page.wait_for_timeout(200)
    expect(page.locator("#notice")).to_contain_text("does not answer")
    page.evaluate("scrollTo(0, 1000)")
    expect(page.locator("#notice")).to_be_in_viewport()
    page.unroute("**/keep")
    tab[1].clear()  # the browser reports it too
    page.keyboard.press("Control+s")
    expect(page.locator("#kept")).to_have_text("Saved: version 2")
    expect(page.locator("#notice")).to_have_text("")


def test_the_report_of_a_failed_save_is_not_replaced(page: Page, client: httpx.Client) -> None:
    page.goto("/ui/projects/default/new?kind=binary_judge")
    page.fill("input[name=key]", "polite")
    page.fill("[data-setting=judge_model]", "missing")  # checks while typing have a stand-in for it
    expect(page.locator(".checks .good")).to_have_count(5)
    page.fill("[data-setting=criteria]", "It is kind.")
    page.keyboard.press("Control+s")
    expect(page.locator("#report")).to_contain_text("no model 'missing'")
    page.wait_for_timeout(1000)
    expect(page.locator("#report")).to_contain_text("no model 'missing'")
    page.fill("[data-setting=criteria]", "It is very kind.")
    expect(page.locator(".checks .good")).to_have_count(5)


def test_a_session_that_ends_costs_no_draft(page: Page, service: Service, client: httpx.Client, secret: str) -> None:
    open_new(page, client)
    for name in service.store.redis.keys("gradebox:session:*"):
        service.store.redis.delete(name)
    write(page, "# a draft\n")
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("Sign in again")
    dialog.locator("input[type=password]").fill("wrong")
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_contain_text("unknown or revoked")
    dialog.locator("input[type=password]").fill(secret)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).not_to_be_visible()
    assert source_of(page) == GOOD + "# a draft\n"
    typed = {"samples": '{"completion": "typed"}', "timeout_s": "9"}
    replace(page, "samples", typed["samples"])
    page.fill("[name=timeout_s]", typed["timeout_s"])
    stored = {"samples": "", "timeout_s": "5"}

    def inputs() -> dict[str, object]:
        return {name: page.locator(f"[name={name}]").evaluate("input => input.value") for name in typed}

    page.reload()  # a reload keeps the draft
    expect(page.locator("#draft")).to_be_visible()
    assert (source_of(page), inputs()) == (GOOD + "# a draft\n", typed)
    page.click("#discard")
    assert (source_of(page), inputs()) == (GOOD, stored)
    assert page.evaluate("Object.keys(localStorage)") == []
    replace(page, "samples", typed["samples"])
    page.reload()
    expect(page.locator("#draft")).to_be_visible()
    save(page, "# kept\n", "Saved: version 2")
    assert page.evaluate("Object.keys(localStorage)") == []
    page.reload()
    expect(page.locator("#draft")).not_to_be_visible()
    assert inputs() == {**stored, "samples": typed["samples"]}


def test_what_tenants_write_runs_nothing(page: Page, client: httpx.Client) -> None:
    text = json.dumps(HOSTILE)
    body = f"    print({text})\n    return Score(0.5, reason={text})\n"
    source = f"from gradebox import Score\n\n\nasync def grade(thread):\n{body}"
    create(client, "hostile", source)
    client.patch(f"{PROJECT}/graders/hostile", json={"name": HOSTILE, "description": HOSTILE}).raise_for_status()
    page.goto(GRADERS)
    expect(page.locator("tbody td").last).to_have_text(HOSTILE)
    page.goto(f"{GRADERS}/hostile")
    long = HOSTILE + 150 * "y"
    replace(page, "samples", json.dumps({"id": long, "completion": HOSTILE}))
    expect(page.locator("#report tbody tr")).to_have_count(1)
    expect(page.locator("#report td.cut").last).to_contain_text(HOSTILE)
    expect(page.locator("#report tbody td").first).to_have_text(long)
    page.locator("#report tbody tr").scroll_into_view_if_needed()
    expect(page.locator("#report td.number").last).to_be_in_viewport()  # the id does not push the score away
    replace(page, "source", f"async def grade(thread):\n    raise ValueError({text})\n")
    expect(page.locator("#report")).to_contain_text(HOSTILE)
    replace(page, "source", f"# {HOSTILE} \u202e\u202b\nasync def grade(thread):\n    return 1\n")
    expect(page.locator(".checks .good")).to_have_count(5)
    expect(page.locator("code-editor#source .cm-specialChar")).to_have_count(2)  # what reverses a text is shown
    assert page.evaluate("window.hacked") is None


def test_a_grader_that_never_ends_is_told_of_soon(page: Page, client: httpx.Client) -> None:
    open_new(page, client)
    began = time.monotonic()
    replace(page, "source", "import time\n\n\nasync def grade(thread):\n    time.sleep(60)\n")
    expect(page.locator("#report")).to_contain_text("timeout")
    assert time.monotonic() - began < 15


def test_who_may_not_save_is_told_why(page: Page, client: httpx.Client) -> None:
    create(client)
    sign_in_as(page, client, "score")
    page.goto(f"{GRADERS}/exact")
    expect(page.locator(".notice").nth(1)).to_contain_text("your API key has the role score")
    assert page.locator("#keep").count() == 0


def test_who_may_only_read_is_asked_for_nothing(page: Page, client: httpx.Client) -> None:
    create(client)
    sign_in_as(page, client, "read")
    page.wait_for_url("**/graders")
    page.goto(f"{GRADERS}/exact")
    expect(page.locator(".notice").nth(1)).to_contain_text("Testing needs the role score")
    page.wait_for_timeout(1000)
    expect(page.locator("#notice")).to_be_empty()
    expect(page.locator("#try")).to_have_count(0)


def test_what_has_no_source_is_not_tested(page: Page, client: httpx.Client) -> None:
    client.post(f"{PROJECT}/graders", json={"key": "human", "kind": "custom"}).raise_for_status()
    page.goto(f"{GRADERS}/human")
    expect(page.locator(".notice").nth(1)).to_contain_text("its scores are recorded")
    expect(page.locator("#report, #try, #config")).to_have_count(0)
    expect(page.locator(".editing")).not_to_be_visible()
    assert "update(" not in page.content()


def test_the_first_load_is_small_and_quick(page: Page, client: httpx.Client) -> None:
    create(client)
    sizes: list[int] = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    session.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    began = time.monotonic()
    page.goto(f"{GRADERS}/exact")
    page.locator("code-editor#source .cm-content").wait_for()
    usable = time.monotonic() - began
    expect(page.locator(".checks .good")).to_have_count(5)
    session.detach()
    assert sum(sizes) < 250 * 1024
    assert usable < 5  # an idle machine needs a third of a second


@pytest.mark.parametrize(
    ("samples", "ids"),
    [
        ('{"id": "a", "completion": "4"}\n\n{"id": "b", "completion": "4"}', ["a", "b"]),
        ('[{"id": "a", "completion": "4"},\n {"id": "b", "completion": "5"}]', ["a", "b"]),
        ('{\n "id": "a",\n "completion": "4"\n}', ["a"]),
        ("just a completion\nof two lines", ["0"]),
        ("", ["0"]),
    ],
)
def test_samples_are_taken_as_people_paste_them(browse: httpx.Client, samples: str, ids: list[str]) -> None:
    sent = {"source": "async def grade(thread):\n    return 1\n", "samples": samples, "isolation": "auto"}
    answer = browse.post("/ui/projects/default/check", data=sent)
    assert answer.status_code == 200, answer.text
    rows = answer.text.split("<tr>")[2:]
    assert [row.split("<td")[1].split(">")[1].split("<")[0] for row in rows] == ids


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"samples": '{"a": 1}\n{nothing'}, "line 2 of the samples is not JSON"),
        ({"samples": "[" + "1," * 1001 + "1]"}, "one request takes at most 1000"),
        ({"timeout_s": "x"}, "the fields are invalid"),
        ({"environment": "nowhere"}, "nowhere"),
        ({"config": "{", "kind": "binary_judge"}, "the settings are not a JSON object"),
        ({"config": f"[{'1e308,' * 2000}1]", "kind": "binary_judge"}, "the settings are not read: there are more than"),
        ({"config": "{}", "kind": "nothing"}, "is not a kind of grader"),
        ({"config": '{"a": "' + "x" * 300_000 + '"}', "kind": "binary_judge"}, "the settings are 300009 characters"),
    ],
)
def test_what_cannot_be_checked_says_why(browse: httpx.Client, fields: dict[str, str], said: str) -> None:
    sent = {"source": GOOD, "samples": "", "isolation": "auto", **fields}
    answer = browse.post("/ui/projects/default/check", data=sent)
    assert (answer.status_code, "HX-Retarget" in answer.headers) == (200, False)  # in place of an earlier report
    assert said in answer.text


def test_a_check_without_a_sandbox_replaces_the_report_of_an_earlier_text(
    browse: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise InfrastructureError("no sandbox can be started")

    monkeypatch.setattr(service.services.pool, "prove", fail)
    answer = browse.post("/ui/projects/default/check", data={"source": GOOD, "samples": "", "isolation": "auto"})
    assert (answer.status_code, "HX-Retarget" in answer.headers) == (200, False)
    assert "try again in a moment" in answer.text


def test_what_is_no_version_is_said(browse: httpx.Client, client: httpx.Client) -> None:
    create(client)
    for number in ("0", "x", "-1", "0000000001" + "9" * 5000, "1" * 10, "\u0663"):
        answer = browse.get(f"{GRADERS}/exact", params={"version": number})
        assert answer.status_code == 422, number
        assert "is not a version" in answer.text


def test_what_is_typed_after_saving_is_a_draft_too(page: Page, client: httpx.Client) -> None:
    create(client)
    page.goto(f"{GRADERS}/exact")
    write(page, "# two\n")
    page.keyboard.press("Control+s")
    write(page, "# while it is saved\n")
    expect(page.locator("#kept")).to_have_text("Saved: version 2")
    write(page, "# later\n")
    page.reload()
    expect(page.locator("#draft")).to_be_visible()
    draft = source_of(page)
    assert draft.startswith(GOOD + "# two\n")
    assert draft.endswith("# later\n")
    page.click("#discard")
    assert source_of(page) == client.get(f"{PROJECT}/graders/exact/versions/2").json()["source"]
    with page.expect_popup() as opened:
        page.evaluate("() => void open(location.href)")
    other = opened.value
    write(other, "# in another tab\n")
    expect(page.locator("#draft")).to_contain_text("Another tab edits this grader too")
    other.close()
    replace(page, "source", GOOD)  # the text from the opening is a draft by now
    page.reload()
    assert source_of(page) == GOOD


def test_what_was_saved_and_not_answered_is_no_conflict(browse: httpx.Client, client: httpx.Client) -> None:
    create(client)
    limits = {"isolation": "auto", "timeout_s": "5", "memory_mb": "256"}
    fields = {"grader": "exact", "version": "1", "samples": "", "source": GOOD + "# two\n", **limits}
    for _ in range(2):
        saved = browse.post("/ui/projects/default/keep", data=fields)
        assert saved.status_code == 200, saved.text
        assert "Saved: version 2" in saved.text
        assert json.loads(saved.headers["hx-trigger"])["kept"]["version"] == 2
    assert browse.post("/ui/projects/default/keep", data={**fields, "timeout_s": "4"}).status_code == 412
    assert client.get(f"{PROJECT}/graders/exact").json()["version"] == 2


def test_the_same_without_the_page_is_asked_of_this_service(browse: httpx.Client, client: httpx.Client) -> None:
    create(client)
    url = str(client.base_url).rstrip("/").removesuffix("/v1")
    shown = browse.get("/ui/projects/default/graders/exact").text
    assert f'gradebox.Client("{url}", project="default").graders.update(' in shown
    assert f"grader.py --url {url} --project default" in shown
    assert f"'{url}/v1/projects/default/graders/exact'" in shown


def test_a_browser_without_scripts_is_told_that_buttons_do_nothing(browse: httpx.Client) -> None:
    (told,) = re.findall("<noscript>(.*)</noscript>", browse.get("/ui/projects/default/new").text)
    assert "nothing is tested or saved here" in told


def test_a_limit_is_shown_whole(browse: httpx.Client, client: httpx.Client) -> None:
    new = {"key": "exact", "source": GOOD, "timeout_s": 1.23456789}
    client.post(f"{PROJECT}/graders", json=new).raise_for_status()
    assert 'value="1.23456789"' in browse.get(f"{GRADERS}/exact").text


def test_the_editor_has_the_limits_of_the_project(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "big")  # has more memory than the project will have
    limits = {"timeout_s": 0.5, "memory_mb": 100, "source_bytes": 1024, "score_threads": 1}
    client.patch(f"{PROJECT}/limits", json=limits).raise_for_status()
    shown = browse.get("/ui/projects/default/new").text
    assert 'max="0.5" step="any" value="0.5"' in shown and 'max="100" value="100"' in shown
    config = {"checks": [{"check": "contains", "text": "x" * 1024}]}
    for fields, said in (
        ({"kind": "checks", "config": json.dumps(config)}, "at most 1024 (1 KiB) are taken"),
        ({"samples": '[{"completion": "4"}, {"completion": "5"}]'}, "one request takes at most 1:"),
        ({"memory_mb": "101"}, "may have at most 100:"),
        ({}, "test_run"),
    ):
        sent = {"source": GOOD, "samples": "", "isolation": "auto", **fields}
        answer = browse.post("/ui/projects/default/check", data=sent)
        assert answer.status_code == 200 and said in answer.text, answer.text
    sent |= {"samples": "4", "grader": "big", "version": "1", "memory_mb": "100", "timeout_s": "0.5"}
    assert "test_run" in browse.post("/ui/projects/default/check?full=true", data=sent).text


def test_the_environments_of_the_project_are_suggested(
    browse: httpx.Client, client: httpx.Client, service: Service
) -> None:
    create(client)
    service.store.environments.create("default", "math", ["sympy"])
    for page in ("graders/exact", "new", "new?kind=judge"):
        assert '<option value="math@1">building</option>' in browse.get(f"/ui/projects/default/{page}").text


def test_old_versions_lead_to_older_ones(browse: httpx.Client, client: httpx.Client, service: Service) -> None:
    create(client)
    for number in range(2, 60):
        service.store.graders.update("default", "exact", proved(f"{GOOD}# {number}\n"))
    newest = browse.get(f"{GRADERS}/exact").text
    assert 'href="?version=30"' in newest
    assert 'href="?version=29"' not in newest
    older = browse.get(f"{GRADERS}/exact?version=30").text
    assert 'href="?version=59"' in older
    assert 'href="?version=16"' in older
    assert 'href="?version=1"' in browse.get(f"{GRADERS}/exact?version=16").text


def test_settings_are_a_draft_too_and_saved(page: Page, client: httpx.Client) -> None:
    create(client)
    config = {"parts": {"a": {"grader": "exact@1", "weight": 1.0}}}
    made = client.post(f"{PROJECT}/graders", json={"key": "both", "kind": "combine", "config": config})
    assert made.status_code == 201, made.text
    page.goto(f"{GRADERS}/both")
    expect(page.locator(".checks .good")).to_have_count(5)
    shown = page.locator("code-editor#config").evaluate("editor => editor.value")
    changed = json.dumps(json.loads(shown), indent=1).replace("1.0", "2.0")
    replace(page, "config", changed)
    page.reload()
    expect(page.locator("#draft")).to_be_visible()
    assert page.locator("code-editor#config").evaluate("editor => editor.value") == changed
    page.locator("input[name=environment]").focus()
    page.keyboard.press("Control+s")  # works outside the editors too
    expect(page.locator("#kept")).to_have_text("Saved: version 2")
    version = client.get(f"{PROJECT}/graders/both/versions/2").json()
    assert version["kind"] == "combine"
    assert version["config"]["parts"]["a"]["weight"] == 2.0
    replace(page, "config", changed.replace("2.0", "3.0"))
    client.put(f"{PROJECT}/graders/both", json={"source": GOOD}).raise_for_status()
    page.goto(f"{GRADERS}/both")
    assert source_of(page) == GOOD  # settings are no draft of a source


def test_a_conflict_of_settings_shows_what_they_make_now(page: Page, client: httpx.Client) -> None:
    create(client)

    def body(weight: float) -> dict[str, object]:
        return {"kind": "combine", "config": {"parts": {"a": {"grader": "exact@1", "weight": weight}}}}

    client.post(f"{PROJECT}/graders", json={"key": "both", **body(1.0)}).raise_for_status()
    page.goto(f"{GRADERS}/both")
    expect(page.locator(".checks .good")).to_have_count(5)
    client.put(f"{PROJECT}/graders/both", json=body(5.0)).raise_for_status()
    replace(page, "config", json.dumps(body(2.0)["config"]))
    page.keyboard.press("Control+s")  # before the check that updates the source on the page
    compared = page.locator("dialog code-editor")
    expect(compared).to_be_visible()
    assert "2.0" in compared.evaluate("editor => editor.value")


def test_a_link_to_a_line_goes_there(page: Page, client: httpx.Client) -> None:
    create(client, "long", GOOD + "# x\n" * 200)
    page.goto(f"{GRADERS}/long?version=1#line-150")
    expect(page.locator("code-editor#source .cm-lineNumbers .cm-activeLineGutter")).to_have_text("150")


def test_saving_while_it_is_saved_saves_again(page: Page, client: httpx.Client) -> None:
    open_new(page, client)
    write(page, "# two\n")
    page.keyboard.press("Control+s")
    page.keyboard.insert_text("# three\n")
    page.keyboard.press("Control+s")
    expect(page.locator("#kept")).to_have_text("Saved: version 3")
    source = client.get(f"{PROJECT}/graders/exact/versions/3").json()["source"]
    assert source == GOOD + "# two\n# three\n"
    assert page.evaluate("Object.keys(localStorage)") == []


def test_what_is_asked_for_is_waited_for(page: Page, client: httpx.Client) -> None:
    open_new(page, client)
    page.evaluate("htmx.config.defaultTimeout = 200")  # a minute, for a grader that takes longer
    replace(page, "source", "import time\n\ntime.sleep(0.5)\n" + GOOD)
    page.click("text=Test")
    expect(page.locator(".checks .good")).to_have_count(5)
    page.click("text=Save")
    expect(page.locator(".working")).to_be_visible()
    expect(page.locator("#kept")).to_have_text("Saved: version 2")


def test_pages_about_the_project_are_reached_and_fit_a_phone(page: Page) -> None:
    page.goto(GRADERS)
    page.click("text=Models")
    expect(page.locator(".empty")).to_contain_text("no models")
    fits_phone(page, "models")
    page.click("text=Changes")
    expect(page.locator("h1")).to_have_text("Changes")
    page.click("text=Service")
    expect(page.locator(".good")).to_contain_text("Ready: Redis answers")
    fits_phone(page, "service")


def test_a_link_on_a_page_asks_before_it_signs_in(page: Page, client: httpx.Client) -> None:
    path = client.post("/v1/me/sign-in").json()["path"]
    page.goto(GRADERS)
    page.click("text=Sign out")
    page.evaluate("path => { location.href = path }", path)
    expect(page.locator("h1")).to_have_text("Sign in to gradebox")
    expect(page.locator("form")).to_contain_text("This link signs you in. It works once.")
    page.keyboard.press("Enter")  # the button has the focus
    page.wait_for_url(f"**{GRADERS}")


def test_a_model_is_asked_when_a_test_is_wanted_and_not_at_each_pause(
    browse: httpx.Client, client: httpx.Client, here: None, server: ModelServer
) -> None:
    register(client, server)
    sent = {"source": JUDGE, "samples": '{"completion": "thanks"}', "isolation": "auto"}
    typed = browse.post("/ui/projects/default/check", data=sent).text
    assert "stand-ins for models and endpoints" in typed
    assert server.bodies == []
    tested = browse.post("/ui/projects/default/check?full=true", data=sent).text
    assert "stand-ins" not in tested
    assert len(server.bodies) > 0


def test_a_judge_is_written_in_a_form(page: Page, client: httpx.Client, here: None, server: ModelServer) -> None:
    register(client, server)
    page.goto(GRADERS)
    page.click("summary:has-text('New judge')")
    page.click("text=binary_judge")
    criteria, config = page.locator("[data-setting=criteria]"), page.locator("code-editor#config")
    expect(criteria).to_have_value("The answer is polite.")
    expect(page.locator("[data-setting=judge_model]")).to_have_value("small-judge")
    expect(page.locator(".checks .good")).to_have_count(5)
    assert server.bodies == []  # stand-ins answered
    criteria.fill('The answer says "please".')
    page.fill("[data-setting=temperature]", "0.5")
    refused = page.locator("#refused")
    page.fill("[data-setting=examples]", "[{")
    for keys in ("Control+s", "Control+Enter"):
        page.keyboard.press(keys)
        expect(refused).to_contain_text("Nothing was saved or tested. Correct the field examples: not valid JSON")
        page.locator("[data-setting=examples]").press_sequentially(" ")
        expect(refused).to_be_empty()
    assert server.bodies == []
    page.fill("[data-setting=examples]", "")
    written = json.loads(config.evaluate("editor => editor.value"))
    assert written == {"criteria": 'The answer says "please".', "judge_model": "small-judge", "temperature": 0.5}
    expect(page.locator("#report")).to_contain_text("stand-ins")
    for _ in range(100):
        if "please" in source_of(page):
            break
        page.wait_for_timeout(100)
    assert "temperature=0.5" in source_of(page)
    replace(page, "config", config.evaluate("editor => editor.value").replace("0.5", "0.25"))
    expect(page.locator("[data-setting=temperature]")).to_have_value("0.25")
    replace(page, "config", "{")
    criteria.fill("Is it short?")
    page.click("#keep")
    expect(refused).to_contain_text("cannot be added to the settings as JSON, which are not an object")
    fits_phone(page, "editor-judge")
    replace(page, "config", json.dumps(written | {"temperature": 0.25}))
    expect(criteria).to_have_value('The answer says "please".')
    expect(refused).to_be_empty()
    page.fill("input[name=key]", "says-please")
    page.click("#keep")
    page.wait_for_url(f"**{GRADERS}/says-please")
    version = client.get(f"{PROJECT}/graders/says-please/versions/1").json()
    assert (version["kind"], version["config"]["temperature"]) == ("binary_judge", 0.25)
    assert len(server.bodies) > 0


def test_a_criterion_may_begin_like_json(page: Page) -> None:
    page.goto("/ui/projects/default/new?kind=judge")
    criterion, config = page.locator("[data-setting=criterion]"), page.locator("code-editor#config")
    for text, value in (("[Safety] Is it safe?", "[Safety] Is it safe?"), ('{"a": 1', '{"a": 1'), ('["a"]', ["a"])):
        criterion.fill(text)
        assert json.loads(config.evaluate("editor => editor.value"))["criterion"] == value


def test_a_test_is_not_replaced_by_the_check_of_what_was_typed_before_it(page: Page, client: httpx.Client) -> None:
    open_new(page, client)
    replace(page, "samples", '{"completion": "4"}')
    write(page, "# typed\n")
    page.keyboard.press("Control+Enter")
    saved = page.locator("#report th").nth(2)
    expect(saved).to_have_text("version 1")
    page.wait_for_timeout(1500)
    expect(saved).to_have_text("version 1")
    write(page, "# typed again\n")
    expect(saved).to_have_text("why")
