import json

import httpx
import pytest

from sandbox.pool.pool import Pool
from tests.api.conftest import GOOD, PROJECT, answer_of, create, problem

pytestmark = pytest.mark.sandbox
URL = f"{PROJECT}/validate"
CHECKS = ["syntax", "structure", "signature", "execution", "test_run"]


def test_a_good_source_passes_all_five(client: httpx.Client) -> None:
    report = client.post(URL, json={"source": GOOD}).json()
    assert report["valid"]
    assert [check["name"] for check in report["checks"]] == CHECKS
    assert [outcome["score"] for outcome in report["outcomes"]] == [1.0]


def test_the_source_itself_may_be_the_body(client: httpx.Client) -> None:
    headers = {"Content-Type": "text/x-python; charset=utf-8"}
    assert client.post(f"{URL}?isolation=completion", content=GOOD.encode(), headers=headers).json()["valid"]
    with_mark = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()
    assert client.post(URL, content=with_mark, headers=headers).json()["valid"]


def test_another_python_of_the_client_is_warned_of_in_every_form(client: httpx.Client) -> None:
    source = GOOD.replace("return ", "return sum([0.0]) + ")
    source = f"{source}\n\ndef run(code):\n    exec(code)\n"
    other = {"User-Agent": "gradebox-python Python/3.999"}
    for response in (
        client.post(URL, json={"source": source}, headers=other),
        client.post(URL, content=source.encode(), headers={**other, "Content-Type": "text/x-python"}),
        client.post(URL, files={"file": ("grader.py", source)}, headers=other),
    ):
        assert any("you have Python 3.999" in warning for warning in response.json()["warnings"]), response.text
    assert "you have" not in client.post(URL, json={"source": source}).text


def test_threads_of_ones_own_are_reported_each(client: httpx.Client) -> None:
    threads = [{"completion": "4"}, {"completion": "5", "metadata": {"answer": "5"}}, {"completion": "6"}]
    body, headers = json.dumps({"source": GOOD, "threads": threads}, indent=2), {"Content-Type": "application/json"}
    report = client.post(URL, content=body, headers=headers).json()
    assert [outcome["score"] for outcome in report["outcomes"]] == [1.0, 1.0, 0.0]
    many = problem(client.post(URL, json={"source": GOOD, "threads": [{}] * 1001}), 413, "too-large")
    assert many.endswith("one request takes at most 1000: send fewer, for the test run")


def test_what_fails_is_in_the_report(client: httpx.Client) -> None:
    response = answer_of(client.post(URL, json={"source": "async def grade(thread):\n    return 1 +\n"}))
    (check,) = response["checks"]
    assert (check["name"], check["passed"]) == ("syntax", False)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (b"x = '\xff'\n", "not UTF-8 (byte 5 is 0xff)"),
        (b"x = 1\n\0", "null byte"),
        (b"#" * 65_537, "65537 bytes long, and at most 65536"),
    ],
)
def test_bytes_of_no_source_fail_the_first_check_in_every_form(client: httpx.Client, source: bytes, says: str) -> None:
    text = source.decode("latin-1").replace("\xff", "\\udcff")
    as_json = b'{"source": "%s"}' % text.replace("\n", "\\n").replace("\0", "\\u0000").encode()
    raw_json = b'{"source": "%s"}' % source.replace(b"\n", b"\\n").replace(b"\0", b"\\u0000")
    for response in (
        client.post(URL, content=source, headers={"Content-Type": "text/x-python"}),
        client.post(URL, files={"file": ("grader.py", source)}),
        client.post(URL, content=as_json, headers={"Content-Type": "application/json"}),
        client.post(URL, content=raw_json, headers={"Content-Type": "application/json"}),
    ):
        assert response.status_code == 200, response.text
        (check,) = response.json()["checks"]
        assert (check["name"], check["passed"]) == ("syntax", False)
        assert says.partition(" (")[0] in check["message"]


@pytest.mark.parametrize("most", [2000, 512 * 1024])
def test_a_source_is_taken_up_to_the_setting(
    client: httpx.Client, pool: Pool, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(pool.settings, "source_bytes", most)
    head, tail = "async def grade(thread):\n    return len(TEXT)\nTEXT = '", "'\n"
    size = most - len(head + tail)
    source, longer = (head + "é" * (size // 2) + "x" * (size % 2 + more) + tail for more in (0, 1))
    python = {"type": "python", "name": "g", "source": longer}
    asked_as_openai = client.post("/openai/v1/fine_tuning/alpha/graders/validate", json={"grader": python})
    for refused in (
        client.post(URL, json={"source": longer}),
        client.post(URL, files={"file": ("grader.py", longer)}),
        client.post(f"{PROJECT}/graders", json={"key": "long", "source": longer}),
        asked_as_openai,
    ):
        assert f"{most + 1 if refused is not asked_as_openai else ''} bytes long, and at most {most} " in refused.text
        assert ("up to 524288, by GRADEBOX_SOURCE_BYTES" in refused.text) == (most == 2000)
    headers = {"Content-Type": "text/x-python"}
    assert f"at most {most} bytes" in problem(
        client.post(URL, content=b"#" * (1 << 20) + b"#", headers=headers), 413, "too-large"
    )
    assert client.post(URL, content=source.encode(), headers=headers).json()["valid"]
    create(client, "long", source=source)
    assert client.get(f"{PROJECT}/graders/long/versions/1").json()["source"] == source
    (outcome,) = client.post(f"{PROJECT}/graders/long/score", json={"threads": [{"completion": ""}]}).json()["outcomes"]
    assert outcome["score"] == size // 2 + size % 2


def test_a_form_without_a_source(client: httpx.Client) -> None:
    response = client.post(URL, files={"other": (None, "x")})
    assert "no source" in problem(response, 422, "invalid-request")
    headers = {"Content-Type": "multipart/form-data"}
    assert "not a multipart form" in problem(client.post(URL, content=b"x", headers=headers), 422, "invalid-request")
    for sent, said in (
        ([("source", GOOD), ("source", "")], "has 'source' 2 times"),
        ([("file", GOOD), ("timeout_s", "2"), ("timeout_s", "1")], "has 'timeout_s' 2 times"),
        ([("file", GOOD), ("source", "")], "this has source too"),
        ([("source", GOOD), ("threads", "[]")], "this has threads too: send a JSON body with threads"),
    ):
        form = [(name, ("g.py" if name == "file" else None, text)) for name, text in sent]
        assert said in problem(client.post(URL, files=form), 422, "invalid-request")
