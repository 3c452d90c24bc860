"""Tests of Weave's RemoteScorer, with bodies of both versions of its schema."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from examples.model_server import ModelServer
from gradebox.client import Client
from gradebox.errors import ApiError, Conflict
from tests.api.conftest import answer_of, problem
from tests.gradebox.conftest import Service

pytestmark = pytest.mark.service

SHOWS = """
import json
from gradebox import Score

async def grade(thread: StringThread) -> float:
    seen = {"turns": thread.get_turns(), "metadata": thread.metadata, "calls": thread.tool_calls}
    return Score(float("42" in (thread.completion() or "")), reason=json.dumps(seen))
"""
RUNS = """
from gradebox import NotApplicable

async def grade(thread: StringThread) -> float:
    names = {"NotApplicable": NotApplicable}
    exec(thread.completion(), names)
    return names["score"]
"""


def call(**members: Any) -> dict[str, Any]:
    named = {"project_id": "team/p", "call_id": "c", "trace_id": "t", "op_name": "weave:///team/p/op/answer:v1"}
    inputs = {"question": "6 x 7?", "answer": "42"}
    times = {"started_at": "2026-11-22T10:00:00Z", "ended_at": "2026-11-22T10:00:01Z"}
    return {**named, "inputs": inputs, "output": "It is 42.", **times, **members}


def version_1(**members: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "original_call": call(**members),
        "scoring_call_id": "s",
        "scoring_trace_id": "st",
        "monitor": {"name": "m", "version_digest": "d"},
        "scorer": {"name": "remote", "ref": "weave:///r", "config": {"strict": True}},
        "triggered_at": "2026-11-22T10:00:02Z",
    }


def version_2(kind: str, payload: Any) -> dict[str, Any]:
    target = {"type": kind, "schema_version": 1, "payload": payload}
    return {"schema_version": 2, "scoring_target": target, "scorer": {"name": "remote", "ref": "weave:///r"}}


class Scorer:
    """Calls a grader as Weave does."""

    def __init__(self, service: Service, client: Client, key: str) -> None:
        self.client, self.key = client, key
        self._http = httpx.Client(
            base_url=f"{service.url}/weave/v1/{client.project}/",
            headers={"Authorization": f"Bearer {service.key}", "Idempotency-Key": "i", "X-Weave-Schema-Version": "1"},
            timeout=60,
        )

    def post(self, body: Any, key: str = "") -> httpx.Response:
        return self._http.post(key or self.key, json=body)

    def post_text(self, body: bytes) -> httpx.Response:
        return self._http.post(self.key, content=body)

    def seen(self, body: Any) -> dict[str, Any]:
        """The turns and metadata that the grader received."""
        answer = answer_of(self.post(body))
        seen: dict[str, Any] = json.loads(answer["result"]["reason"])
        return seen


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    """A client of a project with two graders."""
    with service.new_project() as client:
        client.graders.create.function(key="shows", fn=SHOWS)
        client.graders.create.function(key="runs", fn=RUNS, threads=[{"completion": "score = 1"}])
        yield client


@pytest.fixture
def shows(service: Service, client: Client) -> Scorer:
    client.graders.map_weave("shows")
    return Scorer(service, client, "shows")


def test_both_versions_are_answered_in_their_own(shows: Scorer) -> None:
    for body in (version_1(), version_2("call", call())):
        answer = shows.post(body).json()
        assert set(answer) == {"schema_version", "result"} and answer["schema_version"] == body["schema_version"]
        assert answer["result"]["value"] == 1.0


def test_a_call_is_a_thread(shows: Scorer) -> None:
    seen = shows.seen(version_1())
    assert seen["turns"] == [["assistant", "It is 42."]]
    about = {name: value for name, value in call().items() if name not in ("inputs", "output")}
    more = {"scorer": version_1()["scorer"], "monitor": {"name": "m", "version_digest": "d"}}
    assert seen["metadata"] == {"question": "6 x 7?", "answer": "42", "weave": {**about, **more}}


def test_outputs_of_models_are_found(shows: Scorer) -> None:
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 x 7?"}]
    completion = {"choices": [{"message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}]}
    for output in (completion, completion["choices"][0]["message"]):
        seen = shows.seen(version_1(inputs={"messages": asked, "model": "m"}, output=output))
        assert seen["turns"] == [["system", "Be brief."], ["user", "6 x 7?"], ["assistant", "42"]]


def test_a_turn_of_an_agent_is_a_thread(shows: Scorer) -> None:
    answer = {"role": "assistant", "content": "42", "finish_reason": "stop"}
    messages: dict[str, Any] = {"input": [{"role": "user", "content": "6 x 7?"}], "output": [answer]}
    for instructions in ([{"role": "system", "content": "Be brief."}], ["Be brief."], "Be brief."):
        seen = shows.seen(version_2("agent_turn", {"messages": {"system_instructions": instructions, **messages}}))
        assert seen["turns"] == [["system", "Be brief."], ["user", "6 x 7?"], ["assistant", "42"]]
    seen = shows.seen(version_2("agent_turn", {"messages": messages, "turn_id": "t"}))
    assert seen["turns"] == [["user", "6 x 7?"], ["assistant", "42"]] and seen["metadata"]["weave"]["turn_id"] == "t"
    empty = version_2("agent_turn", {"messages": {**messages, "output": []}})
    assert "no output" in problem(shows.post(empty), 422, "not-scored")


def text(said: str, member: str = "content") -> dict[str, str]:
    return {"type": "text", member: said}


def tool_call(**more: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "c", "name": "times", "arguments": {"a": 6, "b": 10**30}, **more}


def tool_answer(said: Any, member: str = "response") -> dict[str, Any]:
    return {"type": "tool_call_response", "id": "c", member: said}


THOUGHT = {"type": "reasoning", "content": "Let me see."}


def said(*parts: Any, role: str = "assistant") -> dict[str, str]:
    """A message of an agent's turn with structured content, as Weave writes it."""
    return {"role": role, "content": json.dumps(parts), "finish_reason": ""}


CALL = ["times", {"a": 6, "b": 10**30}]
ASSISTANT = ["assistant", "It is 42."]


@pytest.mark.parametrize(
    ("output", "turns", "calls"),
    [
        ([said(text("It is "), text("42."))], [ASSISTANT], []),
        ([said(THOUGHT, text("It is 42.", "text"))], [ASSISTANT], []),
        ([said(THOUGHT)], [["assistant", ""]], []),
        (
            [said(text("I see."), tool_call()), said(tool_answer("43"), role="tool"), said(text("It is 42."))],
            [["assistant", "I see."], ["tool", "43"], ASSISTANT],
            [[*CALL, "43", "c"]],
        ),
        (
            [said(tool_call(arguments='{"a": 6}'), tool_answer({"n": 43}, "result"), text("It is 42."))],
            [["assistant", ""], ["tool", '{"n": 43}'], ASSISTANT],
            [["times", {"a": 6}, '{"n": 43}', "c"]],
        ),
        (
            [
                said(tool_call(id="d"), tool_call()),
                said(tool_answer("43"), tool_answer("44"), role="tool"),
                said(THOUGHT),
            ],
            [["assistant", ""], ["tool", "43"], ["tool", "44"], ["assistant", ""]],
            [[*CALL, None, "d"], [*CALL, "43", "c"]],
        ),
    ],
)
def test_structured_turns_are_unpacked(shows: Scorer, output: list[Any], turns: list[Any], calls: list[Any]) -> None:
    seen = shows.seen(version_2("agent_turn", {"messages": {"output": output}}))
    assert (seen["turns"], seen["calls"]) == (turns, calls)
    shows.client.graders.map_weave("shows", completion="messages.output")
    assert shows.seen(version_2("agent_turn", {"messages": {"output": output}}))["turns"] == turns


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "[1] says 42",
        '["a"]',
        json.dumps([{"type": "shoe", "content": "42"}, text("42")]),
        json.dumps([{"type": "text", "words": 42}]),
        json.dumps([{"type": "tool_call", "id": "c"}]),
        json.dumps(text("42")),
        "[" * 1500 + "]" * 1500,
    ],
)
def test_other_content_of_a_turn_stays_as_it_is(shows: Scorer, content: str) -> None:
    message = {"role": "assistant", "content": content}
    assert shows.seen(version_2("agent_turn", {"messages": {"output": [message]}}))["turns"] == [["assistant", content]]


def test_structured_content_of_a_call_stays_as_it_is(shows: Scorer) -> None:
    message = said(text("42"))
    assert shows.seen(version_1(output=message))["turns"] == [["assistant", message["content"]]]


def test_a_target_of_another_version_is_refused(shows: Scorer) -> None:
    for kind, payload in (("call", call()), ("agent_turn", {"messages": {"output": "42"}})):
        body = version_2(kind, payload)
        del body["scoring_target"]["schema_version"]
        assert shows.post(body).status_code == 200
        body["scoring_target"]["schema_version"] = 2
        detail = problem(shows.post(body), 422, "invalid-request")
        assert f"`{kind}` of version 2, and a grader takes `call` of version 1, `agent_turn` of version 1" in detail


def test_a_mapping_says_where_the_parts_are(shows: Scorer) -> None:
    graders = shows.client.graders
    grader = graders.map_weave("shows", completion="output.parts.1", prompt="inputs.question", metadata="output.about")
    assert grader.weave is not None and grader.weave.completion == "output.parts.1"
    seen = shows.seen(version_1(output={"parts": ["x", "42 é😀"], "about": {"a": 10**30}}))
    assert seen["turns"] == [["user", "6 x 7?"], ["assistant", "42 é😀"]]
    assert seen["metadata"]["a"] == 10**30
    assert shows.seen(version_1(output={"parts": [0, {"n": 42}], "about": {}}))["turns"][1][1] == '{"n":42}'
    graders.update("shows", timeout_s=3)  # the mapping stays
    assert shows.seen(version_1(output={"parts": ["x", "y"], "about": {}}))["turns"][1][1] == "y"
    assert graders.map_weave("shows").weave is not None
    assert shows.seen(version_1())["turns"] == [["assistant", "It is 42."]]


def test_a_mapping_may_lead_to_messages(shows: Scorer) -> None:
    shows.client.graders.map_weave("shows", completion="output.said")
    said = {"role": "assistant", "content": "42"}
    for found in (said, [said]):
        assert shows.seen(version_1(output={"said": found}))["turns"] == [["assistant", "42"]]
    for other in ({"role": "engineer", "content": "42"}, {"role": "user", "years": 42}, [], [said, 42]):
        (turn,) = shows.seen(version_1(output={"said": other}))["turns"]
        assert (turn[0], json.loads(turn[1])) == ("assistant", other)
    asked = {"role": "user", "content": "6 x 7?"}
    shows.client.graders.map_weave("shows", completion="output.said", prompt="inputs.asked")
    for prompt in (asked, [asked]):
        seen = shows.seen(version_1(inputs={"asked": prompt}, output={"said": said}))
        assert seen["turns"] == [["user", "6 x 7?"], ["assistant", "42"]]
    shows.client.graders.map_weave("shows", completion="output.said")
    assert "no completion" in problem(shows.post(version_1(output={"said": asked})), 422, "not-scored")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"parts": []}, "`output` has parts"),
        (None, "`output` is null"),
        ("text", '`output` is "text"'),
        ({"parts": [1, None]}, ""),
    ],
)
def test_what_a_mapping_does_not_find_is_an_error(shows: Scorer, output: Any, said: str) -> None:
    shows.client.graders.map_weave("shows", completion="output.parts.1")
    detail = problem(shows.post(version_1(output=output)), 422, "not-scored")
    assert "`output.parts.1`" in detail and said in detail


def test_a_mapping_of_calls_leaves_turns_as_they_are(shows: Scorer) -> None:
    shows.client.graders.map_weave("shows", completion="output.answer", prompt="inputs.question", metadata="inputs")
    said = {"role": "assistant", "content": "42"}
    turn = {"messages": {"input": [{"role": "user", "content": "6 x 7?"}], "output": [said, said]}}
    seen = shows.seen(version_2("agent_turn", turn))
    assert seen["turns"] == [["user", "6 x 7?"], ["assistant", "42"], ["assistant", "42"]]
    shows.client.graders.map_weave("shows", completion="messages.output.0.content")
    assert shows.seen(version_2("agent_turn", turn))["turns"] == [["user", "6 x 7?"], ["assistant", "42"]]
    assert shows.seen(version_1())["turns"] == [["assistant", "It is 42."]]


def test_names_and_texts_arrive_as_they_were_meant(shows: Scorer) -> None:
    """Clients may escape characters that are not ASCII. A backslash before `ud` is not half of a pair."""
    inputs = {"😀": 1, "C:\\udata": 2, "\\udots": 3, "\ud800": 4, "né": {"ü": "\udc00"}}
    for escaped in (True, False):
        body = json.dumps(version_1(inputs=inputs, output={"😀": "ü"}), ensure_ascii=escaped)
        sent = body.encode("utf-8", "backslashreplace")  # the only way to send half a pair
        shows.client.graders.map_weave("shows", completion="output.😀")
        answer = shows.post_text(sent)
        seen = json.loads(answer.json()["result"]["reason"])
        assert {name: seen["metadata"][name] for name in inputs} == inputs
        assert seen["turns"] == [["assistant", "ü"]]
        shows.client.graders.map_weave("shows", completion="output")
        seen = json.loads(shows.post_text(sent).json()["result"]["reason"])
        assert seen["turns"] == [["assistant", '{"😀": "ü"}']]
    number = json.dumps(version_1()).replace('"It is 42."', '{"n": ' + "1" * 5000 + "}")
    assert shows.post_text(number.encode()).status_code == 200  # more digits than Python converts


_NO_ANSWER = {"choices": [{"message": {"role": "tool", "content": "42"}}]}


@pytest.mark.parametrize("output", [{"role": "user", "content": "42"}, _NO_ANSWER, {"choices": []}, [], 42])
def test_a_call_without_a_completion_has_no_score(shows: Scorer, output: Any) -> None:
    problem(shows.post(version_1(output=output)), 422, "not-scored")


@pytest.mark.parametrize("output", ["[ ]", "[]", "null", "12", '[{"role":"user","content":"42"}]'])
def test_a_turn_without_a_completion_has_no_score(shows: Scorer, output: str) -> None:
    body = json.dumps(version_2("agent_turn", {"messages": {"output": "HERE"}})).replace('"HERE"', output)
    problem(shows.post_text(body.encode()), 422, "not-scored")


def test_turns_of_every_shape(shows: Scorer) -> None:
    user = {"role": "user", "content": "6 x 7?"}
    for asked, turns in (([], []), ("6 x 7?", [["user", "6 x 7?"]]), (user, [["user", "6 x 7?"]])):
        for output in ("42", {"role": "assistant", "content": "42"}):
            seen = shows.seen(version_2("agent_turn", {"messages": {"input": asked, "output": output}}))
            assert seen["turns"] == [*turns, ["assistant", "42"]]
    empty = shows.post(version_2("agent_turn", {"messages": {"output": ""}})).json()
    assert empty["result"]["value"] == 0.0  # the empty completion is scored


def test_what_is_looked_into_is_bounded(shows: Scorer) -> None:
    shows.client.graders.map_weave("shows", completion="output.20000")
    problem(shows.post(version_1(output=[0] * 20_001)), 422, "invalid-request")
    shows.client.graders.map_weave("shows")
    problem(shows.post(version_1(inputs={str(n): 0 for n in range(10_001)})), 422, "invalid-request")
    shows.client.graders.map_weave("shows", completion="output")
    deep = json.dumps(version_1()).replace('"It is 42."', "[" * 400_000 + "]" * 400_000)
    assert shows.post_text(deep.encode()).status_code == 422


def test_a_mapping_that_is_none_is_refused(shows: Scorer) -> None:
    graders = shows.client.graders
    for path in ("", ".", "output..a", "output" + ".a" * 20, "output\n", "$.output", "answer"):
        with pytest.raises(ApiError, match=r"such as `output.answer`"):
            graders.map_weave("shows", completion=path)
    graders.lock("shows")
    with pytest.raises(Conflict):
        graders.map_weave("shows", completion="output")
    graders.lock("shows", locked=False)


def test_a_score_that_is_missing_is_an_error_and_never_a_0(service: Service, client: Client) -> None:
    runs = Scorer(service, client, "runs")
    for code, said in (
        ("raise KeyError('a')", "exception"),
        ("score = float('nan')", "bad_return"),
        ("raise NotApplicable('no tools')", "does not apply to this: no tools"),
        ("score = 1.5", "from 0 to 1"),
        ("score = 1 + 2**-52", "the score is 1.0000000000000002"),
        ("score = -0.1", "from 0 to 1"),
        ("import os; os._exit(0)", "crash"),
    ):
        assert said in problem(runs.post(version_1(output=code)), 422, "not-scored")
    assert runs.post(version_1(output="score = 0.0")).json()["result"] == {"value": 0.0}


def test_requests_that_are_none(shows: Scorer) -> None:
    bodies: list[Any] = [
        {"schema_version": 3},
        {"schema_version": 1},
        {"schema_version": 2, "scoring_target": {"type": "call", "payload": []}},
        {"schema_version": 2, "scoring_target": {"type": "trace", "payload": {}}},
        [],
    ]
    for body in bodies:
        problem(shows.post(body), 422, "invalid-request")
    shows.client.graders.map_weave("shows", completion="output.answer")  # a missing version is reported first
    problem(shows.post(version_1(), "none"), 404, "not-found")
    assert "key@3" in problem(shows.post(version_1(), "shows@x"), 422, "invalid-request")
    problem(shows.post(version_1(), "shows@9"), 404, "not-found")
    shows.client.graders.map_weave("shows")
    assert shows.post(version_1(), "shows@1").status_code == 200
    problem(shows.post(version_1(output="x" * 3_000_000)), 413, "too-large")


def test_judges_and_combined_graders_are_scorers_too(shows: Scorer, service: Service) -> None:
    client = shows.client
    with ModelServer() as server:
        client.models.create("judge", base_url=server.base_url, model="m", keep_replies=False)
        client.graders.create.binary_judge(key="judged", criteria="Is it right?", judge_model="judge")
        client.graders.create.combine(key="both", parts={"shows": "shows", "judged": "judged"})
        for key in ("judged", "both"):
            answer = answer_of(Scorer(service, client, key).post(version_1()))
            assert 0 <= answer["result"]["value"] <= 1
