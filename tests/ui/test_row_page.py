"""Tests of rows with long, deep, broken or grouped threads."""

import html
import json
import re
import time
import tracemalloc

import httpx
import pytest
from playwright.sync_api import Page

from gradebox.outcome import CompletionScore, with_completion_scores
from storage.store import Store
from tests.api.conftest import PROJECT, create, finished
from tests.storage.making import accept, claim, finish, outcomes_of, wanted
from tests.ui.conftest import fits_phone
from ui import row_page

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
BATCHES = "/ui/projects/default/batches"
GRADERS = "/ui/projects/default/graders"
LINES = {"Content-Type": "application/x-ndjson"}
ONE = "async def grade(thread):\n    return 1\n"
LONG = """
import gradebox


async def grade(thread):
    if thread.completion() == "off":
        raise gradebox.NotApplicable("x" * 4000)
    return gradebox.Score(1, reason="x" * 4000 + "\\nnext line", values={"v" * 64: 1.0})
"""


def made(client: httpx.Client, lines: bytes, key: str = "one", source: str = ONE) -> str:
    create(client, key, source)
    return scored(client, lines, key)


def scored(client: httpx.Client, lines: bytes, key: str) -> str:
    answer = client.post(f"{PROJECT}/batches?grader={key}", content=lines, headers=LINES)
    assert answer.status_code == 202, answer.text
    batch = str(answer.json()["id"])
    finished(client, batch)
    return batch


def nested(depth: int, inner: str = "1") -> bytes:
    return b'{"completion": "x", "metadata": {"a": %s}}\n' % ("[" * depth + inner + "]" * depth).encode()


def test_deep_threads_are_shown_in_little(browse: httpx.Client, client: httpx.Client) -> None:
    wide = nested(400, "1," * 60_000 + "1")
    depths = [60, *range(300, 1000, 50), 100_000]
    batch = made(client, b"".join(map(nested, depths)) + wide)
    for index in range(len(depths) + 1):
        began = time.monotonic()
        answer = browse.get(f"{BATCHES}/{batch}/rows/{index}")
        assert answer.status_code == 200, index
        assert len(answer.text) < 800_000
        assert time.monotonic() - began < 3


def test_long_words_stay_on_the_page(page: Page, client: httpx.Client) -> None:
    threads = b"".join(b'{"id": "%s", "completion": "%s"}\n' % (b"i" * 256, c) for c in (b"x", b"off"))
    batch = made(client, threads, "k" * 64, LONG)
    for listed in (BATCHES, GRADERS):
        page.goto(listed)
        assert page.locator(".scroll").evaluate("table => table.scrollWidth <= table.clientWidth")
    for index in (0, 1):
        page.goto(f"{BATCHES}/{batch}/rows/{index}")
        fits_phone(page, "row-of-long-words")
        assert page.locator("p.lines").inner_text().endswith("x\nnext line" if index == 0 else "x")


LEFT = """(text, at) => {
  const range = document.createRange();
  range.setStart(text.firstChild, at);
  range.setEnd(text.firstChild, at + 1);
  return range.getBoundingClientRect().left;
}"""


def test_text_that_begins_from_right_to_left_reads_so(page: Page, client: httpx.Client) -> None:
    batch = made(client, '{"prompt": "Hi, שלום", "completion": "שלום, Dana"}\n'.encode())
    page.goto(f"{BATCHES}/{batch}/rows/0")
    lefts = [[turn.evaluate(LEFT, at) for at in (0, 6)] for turn in page.locator("pre.turn").all()]
    assert [first < seventh for first, seventh in lefts] == [True, False]


def test_half_an_emoji_is_shown(browse: httpx.Client, client: httpx.Client) -> None:
    batch = made(client, b'{"id": "a", "completion": "cut \\ud83d", "metadata": {"b": "\\ude00"}}\n')
    for headers in ({}, {"HX-Request": "true"}):
        answer = browse.get(f"{BATCHES}/{batch}/rows/0", headers=headers)
        assert answer.status_code == 200
        assert "cut ?" in answer.text
    assert browse.get(f"{GRADERS}/one?sample={batch}:0").status_code == 200


def test_a_row_has_its_id_and_links_to_its_neighbours(browse: httpx.Client, client: httpx.Client) -> None:
    batch = made(client, b"".join(b'{"id": "row-%d", "completion": "x"}\n' % number for number in range(3)))
    for index, links in ((0, ["1"]), (1, ["0", "2"]), (2, ["1"])):
        page = browse.get(f"{BATCHES}/{batch}/rows/{index}").text
        assert f">row-{index}<" in page
        assert re.findall(r'<a href="(\d+)\?grader=one%401">', page) == links


def test_tool_calls_are_shown(browse: httpx.Client, client: httpx.Client) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "a cat", "tool_call_id": "c1"},
        {"role": "assistant", "content": "A cat"},
    ]
    batch = made(client, json.dumps({"messages": messages}).encode() + b"\n")
    shown = html.unescape(browse.get(f"{BATCHES}/{batch}/rows/0").text)
    assert json.dumps({"tool_calls": [call]}, sort_keys=True) in shown
    assert shown.index('"tool_calls"') < shown.index("a cat") < shown.index('{"tool_call_id": "c1"}')


def test_many_turns_are_counted(browse: httpx.Client, client: httpx.Client) -> None:
    batch = made(client, json.dumps({"turns": [["user", "x"]] * 1200 + [["assistant", "y"]]}).encode() + b"\n")
    answer = browse.get(f"{BATCHES}/{batch}/rows/0")
    assert "and 701 more turns" in answer.text


def test_a_long_thread_is_no_broken_sample(browse: httpx.Client, client: httpx.Client) -> None:
    batch = made(client, b"".join(b'{"completion": "%s"}\n' % (b"x" * size) for size in (150_000, 300_000)))
    taken = browse.get(f"{GRADERS}/one?sample={batch}:0")
    assert taken.status_code == 200
    assert "x" * 150_000 in taken.text
    refused = browse.get(f"{GRADERS}/one?sample={batch}:1")
    assert refused.status_code == 413
    assert "has 300018 bytes" in refused.text


def test_a_line_that_is_no_thread_is_no_sample(browse: httpx.Client, client: httpx.Client) -> None:
    lines = [b"hello", b'"hello"', b"[1, 2]", b'{"completion": "cut', b'{"completion": "\xff"}', b'{"a": 1}']
    batch = made(client, b"".join(line + b"\n" for line in lines))
    assert client.get(f"{PROJECT}/batches/{batch}").json()["errors"] == {"bad_input": 6}
    offered = ["Test in the editor" in browse.get(f"{BATCHES}/{batch}/rows/{n}").text for n in range(6)]
    assert offered == [False] * 5 + [True]
    taken = browse.get(f"{GRADERS}/one?sample={batch}:0,1,2,3,4,5").text
    assert re.findall(r'<code-editor id="samples".*?>(.*?)</code-editor>', taken, re.DOTALL) == ["{&#34;a&#34;: 1}\n"]
    refused = browse.get(f"{GRADERS}/one?sample={batch}:0,4")
    assert refused.status_code == 422
    assert "has no thread to test" in refused.text


def test_samples_that_are_too_long_to_show_stay_whole(browse: httpx.Client, client: httpx.Client) -> None:
    threads = [{"id": str(n), "completion": "x" * 3000} for n in range(100)]
    new = {"key": "one", "source": ONE, "threads": threads}
    client.post(f"{PROJECT}/graders", json=new).raise_for_status()
    shown = browse.get(f"{GRADERS}/one").text
    assert "too long for this page" in shown
    assert "xxx" not in shown
    fields = {"grader": "one", "version": "1", "samples": "", "isolation": "auto", "source": ONE + "# two\n"}
    checked = browse.post("/ui/projects/default/check", data=fields)
    assert checked.text.count("<tr>") == 101
    assert browse.post("/ui/projects/default/keep", data=fields).status_code == 200
    kept = client.get(f"{PROJECT}/graders/one").json()
    assert (kept["version"], kept["test_threads"]) == (2, 100)
    batch = scored(client, b'{"id": "row", "completion": "taken"}\n', "one")
    taken = browse.get(f"{GRADERS}/one?sample={batch}:0").text
    assert "Saving the grader keeps them, and does not store the ones here" in taken
    assert "are_long" not in browse.get(f"/ui/projects/default/new?sample={batch}:0").text
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', taken))
    fields |= hidden | {"samples": '{"id": "row", "completion": "taken"}', "source": ONE + "# three\n"}
    assert browse.post("/ui/projects/default/check", data=fields).text.count("<tr>") == 2
    assert browse.post("/ui/projects/default/keep", data=fields).status_code == 200
    kept = client.get(f"{PROJECT}/graders/one").json()
    assert (kept["version"], kept["test_threads"]) == (3, 100)


def test_a_grader_without_samples_gets_none_of_ours(browse: httpx.Client, client: httpx.Client) -> None:
    create(client, "one", ONE)
    assert "It is 4" not in browse.get(f"{GRADERS}/one").text


def test_groups_are_shown_and_tried(browse: httpx.Client, client: httpx.Client) -> None:
    source = (
        "from gradebox import Score\n\n\nasync def grade(threads: list[StringThread]) -> list[float]:\n"
        "    return [Score(n, reason='it', details={'<b>': n}) for n, _ in enumerate(threads)]\n"
    )
    group = {"prompt": "Say", "completions": ["a", "b", "c"]}
    batch = made(client, json.dumps(group).encode() + b"\n", "group", source)
    row = browse.get(f"{BATCHES}/{batch}/rows/0")
    assert row.status_code == 200
    assert "completions&#34;" not in row.text  # no JSON
    assert ">Say<" in row.text
    assert "&#34;&lt;b&gt;&#34;: 2" in row.text
    assert "data-close" not in row.text  # a page is not closed
    shown = browse.get(f"{BATCHES}/{batch}").text
    assert ">3 completions<" in shown
    assert (">1 group, created" in shown, "order of groups" in shown, ">1 outcome<" in shown) == (True, True, True)
    assert browse.get(f"{GRADERS}/group?sample={batch}:0").status_code == 200
    fields = {"grader": "group", "version": "1", "samples": json.dumps(group), "isolation": "auto", "source": source}
    checked = browse.post("/ui/projects/default/check?full=true", data=fields)
    assert checked.status_code == 200
    assert "version 1" in checked.text


EACH = "async def grade(threads: list[StringThread]) -> list[float]:\n    return [n / 8 for n in range(len(threads))]\n"


def test_the_completions_of_a_group_are_shown_as_turns(browse: httpx.Client, client: httpx.Client) -> None:
    system, asked = {"role": "system", "content": "Be terse"}, {"role": "user", "content": "Say <i>"}
    said = [[{"role": "assistant", "content": f"so {n}"}] for n in range(3)]
    threads = [
        {"messages": [system, {"role": "user", "content": f"ask {n}"}, *said[n]], "metadata": {"n": n}}
        for n in range(2)
    ]
    groups = [
        {"prompt": [system, asked], "completions": said, "metadata": {"right": "so 2"}},
        {"threads": threads},
        {"prompt": "Say", "completions": ["alone"]},
        {"prompt": "Say", "completions": [f"number {n}" for n in range(60)]},
        {"prompt": "Say", "completions": "none"},
    ]
    batch = made(client, b"".join(json.dumps(group).encode() + b"\n" for group in groups), "each", EACH)

    def shown(index: int) -> str:
        answer = browse.get(f"{BATCHES}/{batch}/rows/{index}", headers={"HX-Request": "true"})
        assert answer.status_code == 200
        return answer.text

    first = shown(0)
    assert ">Group 0</a></h1>" in first
    assert first.count(">Be terse<") == first.count(">Say &lt;i&gt;<") == first.count("&#34;right&#34;: ") == 1
    assert 'Completion 2 <span class="quiet">each@1 0.25</span></h2>' in first
    assert [first.count(f">so {n}<") for n in range(3)] == [1, 1, 1]
    second = shown(1)
    assert (second.count(">Be terse<"), second.count(">ask 0<"), second.count(">ask 1<")) == (1, 1, 1)
    assert second.index("&#34;n&#34;: 0") < second.index(">ask 1<") < second.index("&#34;n&#34;: 1")
    assert (shown(2).count(">Say<"), shown(2).count(">alone<")) == (1, 1)
    assert ">number 49<" in shown(3) and ">number 50<" not in shown(3) and "and 10 more completions" in shown(3)
    assert "as it was sent" in shown(4)


def test_large_groups_are_shown_in_little_time_and_space(browse: httpx.Client, client: httpx.Client) -> None:
    turns = [{"role": "user", "content": ""}] * 5000
    deep = '{"completion": "x", "metadata": {"a%d": %s}}'
    lines = [
        json.dumps({"prompt": turns, "completions": [""] * 64}),
        '{"threads": [' + ", ".join(deep % (n, "[" * 300 + "]" * 300) for n in range(300)) + "]}",
        json.dumps({"threads": [{"turns": [["user", str(n)], *[["assistant", ""]] * 200]} for n in range(50)]}),
    ]
    batch = made(client, "".join(f"{line}\n" for line in lines).encode(), "each", EACH)
    for index, line in enumerate(lines):
        assert len(line) < 256 * 1024
        began = time.monotonic()
        answer = browse.get(f"{BATCHES}/{batch}/rows/{index}")
        assert answer.status_code == 200
        assert len(answer.text) < 800_000
        assert "more completions" in answer.text or "more turns" in answer.text
        assert time.monotonic() - began < 5


def test_outcomes_of_groups_are_read_one_after_the_other(store: Store) -> None:
    batch = accept(store, 50, wanted(store, "exact"))
    lease = claim(store)
    steps: dict[str, object] = {"steps": [[]] * 100}
    scores = [CompletionScore(None, not_applicable=f"{number:064}", details=steps) for number in range(1000)]
    finish(store, lease, [with_completion_scores(one, scores) for one in outcomes_of(store, lease)])
    tracemalloc.start()
    assert sum(1 for _ in row_page.outcomes_of(store, batch, range(50))) == 50
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
