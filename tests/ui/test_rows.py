"""Tests of rows with long, deep, broken or grouped threads."""

import json
import time

import httpx
import pytest

from tests.api.conftest import PROJECT, create, finished

pytestmark = [pytest.mark.sandbox, pytest.mark.usefixtures("worker")]
BATCHES = "/ui/projects/default/batches"
GRADERS = "/ui/projects/default/graders"
LINES = {"Content-Type": "application/x-ndjson"}
ONE = "async def grade(thread):\n    return 1\n"


def made(client: httpx.Client, lines: bytes, key: str = "one", source: str = ONE) -> str:
    create(client, key, source)
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


def test_half_an_emoji_is_shown(browse: httpx.Client, client: httpx.Client) -> None:
    batch = made(client, b'{"id": "a", "completion": "cut \\ud83d", "metadata": {"b": "\\ude00"}}\n')
    for headers in ({}, {"HX-Request": "true"}):
        answer = browse.get(f"{BATCHES}/{batch}/rows/0", headers=headers)
        assert answer.status_code == 200
        assert "cut ?" in answer.text
    assert browse.get(f"{GRADERS}/one?sample={batch}:0").status_code == 200


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
    assert "completions" in row.text
    assert "&#34;&lt;b&gt;&#34;: 2" in row.text
    assert browse.get(f"{BATCHES}/{batch}").status_code == 200
    assert browse.get(f"{GRADERS}/group?sample={batch}:0").status_code == 200
    fields = {"grader": "group", "version": "1", "samples": json.dumps(group), "isolation": "auto", "source": source}
    checked = browse.post("/ui/projects/default/check?full=true", data=fields)
    assert checked.status_code == 200
    assert "version 1" in checked.text
