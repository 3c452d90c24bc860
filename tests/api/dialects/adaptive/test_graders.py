"""Tests of graders through unmodified adaptive-sdk."""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from examples.model_server import ModelServer, Script
from gradebox import NotFound
from gradebox.client.thread_line import Thread
from tests.api.dialects.adaptive.conftest import refused
from tests.gradebox.conftest import Service

if TYPE_CHECKING:
    from adaptive_sdk import Adaptive

pytestmark = [pytest.mark.service, pytest.mark.sandbox]

SOURCE = "async def grade(thread):\n    return 1.0\n"
CREATE = """
mutation C($project: IdOrKey!, $input: GraderCreateInput!) { createGrader(project: $project, input: $input) { id } }
"""
UPDATE = """
mutation U($p: IdOrKey!, $k: IdOrKey!, $i: GraderUpdateInput!) { updateGrader(project: $p, id: $k, input: $i) {
    name graderConfig { ... on RemoteConfigOutput { url } }
} }
"""


async def exact_match(thread: "StringThread") -> float:  # type: ignore[name-defined]  # noqa: F821  # as in the SDK's example: the platform defines it
    return 1.0 if thread.last_content().strip() == thread.metadata["answer"] else 0.0


async def says_four(thread: "StringThread") -> float:  # type: ignore[name-defined]  # noqa: F821  # as above
    return float("4" in thread.completion())


def function(sdk: "Adaptive", key: str = "says-four", fn: Any = says_four, **more: Any) -> Any:
    return sdk.graders.create.function(key=key, fn=fn, **more)


def test_a_function_is_created_and_scores(sdk: "Adaptive", service: Service, project: str) -> None:
    before = int(time.time() * 1000)
    made = function(sdk, name="Says four", description="looks for a 4")

    assert (made.key, made.name, made.locked) == ("says-four", "Says four", False)
    assert made.grader_type.value == "FUNCTION"
    assert made.grader_config.function_description == "looks for a 4"
    assert made.grader_config.source_code.startswith("async def grade(thread")
    assert made.project.key == project
    metric = (made.metric.key, made.metric.kind.value, made.metric.scoring_type.value)
    assert metric == ("says-four", "SCALAR", "HIGHER_IS_BETTER")
    assert before <= made.created_at <= time.time() * 1000
    assert service.client(project).score("says-four", [{"completion": "4"}])[0].score == 1.0


def test_the_client_that_awaits_does_the_same(service: Service, project: str) -> None:
    """test_schema.py shows that it sends the same documents."""
    from adaptive_sdk import AsyncAdaptive

    async def run() -> tuple[Any, Any]:
        graders = AsyncAdaptive(base_url=service.url, api_key=service.key).graders
        made = await graders.create.function(key="says-four", fn=says_four, project=project)
        return made, await graders.get(grader_key="says-four", project=project)

    made, found = asyncio.run(run())
    assert (made.key, found.id) == ("says-four", made.id)


def test_source_as_a_string_is_kept_verbatim(sdk: "Adaptive") -> None:
    source = "import re  # π\n\n\nasync def grade(t):\n    return float(len(re.findall('4', t.completion())))\n"
    assert function(sdk, fn=source).grader_config.source_code == source


def test_a_function_that_fails_a_check_is_not_kept(sdk: "Adaptive", service: Service, project: str) -> None:
    with pytest.raises(ValueError, match=r"validation failed: test_run: .*answer") as caught:
        function(sdk, fn=exact_match)
    assert "in grade" in str(caught.value), "the grader's own traceback is shown"
    assert str(caught.value).count("(line ") == 1
    with pytest.raises(ValueError, match=r"validation failed: structure: .*async def grade.* \(line 1\)"):
        function(sdk, fn="def grade(thread):\n    return 1.0\n")
    with pytest.raises(ValueError, match="validation failed: syntax: the source is 70000 bytes long"):
        function(sdk, fn="#" * 70_000)
    assert service.client(project).graders.list() == []


def test_validation_tells_of_every_check_and_takes_a_thread(sdk: "Adaptive", project: str) -> None:
    source = "async def grade(thread):\n    return float(thread.metadata['answer'])\n"
    sample = {"turns": [["user", "?"], ["assistant", "!"]], "metadata": {"answer": "0.5"}}

    answer = sdk._gql_client.validate_function_grader(project=project, code=source, test_sample=sample)

    report = answer.validate_function_grader
    assert report.valid
    assert [check.name for check in report.checks] == ["syntax", "structure", "signature", "execution", "test_run"]
    assert all(check.passed and check.message for check in report.checks)
    assert report.warnings


def test_a_create_without_validation_is_validated(ask: Callable[..., Any], project: str, service: Service) -> None:
    grader = {"name": "x", "key": "x", "graderType": "FUNCTION"}
    config = {"function": {"sourceCode": "async def grade(a, b): return 1.0"}}

    answer = ask(CREATE, project=project, input={**grader, "graderConfig": config})

    assert answer["data"] is None
    assert "check 'signature' failed" in answer["errors"][0]["message"]
    assert answer["errors"][0]["extensions"]["report"]["valid"] is False
    assert service.client(project).graders.list() == []


def test_checks_are_a_function_to_the_sdk(sdk: "Adaptive", service: Service, project: str) -> None:
    service.client(project).graders.create.checks("four", [{"check": "contains", "text": "4"}])
    found = sdk.graders.get(grader_key="four")
    assert found.grader_type.value == "FUNCTION"
    assert "from gradebox.checks import Checks" in found.grader_config.source_code


@pytest.fixture
def server(service: Service, project: str) -> Iterator[ModelServer]:
    """A server for the project's model `a-judge`, which passes every completion, and for rewards."""
    with ModelServer(Script(reply='{"reasoning": "so it is", "score": "PASS"}', reward=0.25, schemas=False)) as server:
        service.client(project).models.create("a-judge", base_url=server.base_url, model="m")
        yield server


def judge(client: Any, **more: Any) -> Any:
    settings = {"key": "kind", "criteria": "is <kind>", "judge_model": "a-judge", "name": "Kind", **more}
    return client.graders.create.binary_judge(**settings)


def test_a_judge_comes_back_and_scores(sdk: "Adaptive", service: Service, project: str, server: ModelServer) -> None:
    examples = [
        {"input": [{"role": "user", "content": "hi"}], "output": "yo", "passes": True},
        {"input": [], "output": "no", "passes": False, "reasoning": "rude"},
    ]
    made = judge(sdk, examples=examples)
    config = made.grader_config
    assert (made.grader_type.value, made.metric.kind.value, made.name) == ("JUDGE", "BOOL", "Kind")
    assert (config.judge_criteria, config.model.key, config.model.online.value) == ("is <kind>", "a-judge", "ONLINE")
    kept_examples = [(one.output, one.pass_, one.reasoning) for one in config.examples]
    assert kept_examples == [("yo", True, None), ("no", False, "rude")]
    assert config.examples[0].input[0].content == "hi"
    client = service.client(project)
    (kept,) = client.graders.versions("kind")
    assert kept.kind == "binary_judge"
    assert "{{#each examples}}" in kept.source
    thread = {"prompt": "Is <that> so?", "completion": "yes &lt; no"}
    (outcome,) = client.score("kind", [thread])
    assert (outcome.score, outcome.reason) == (1.0, "so it is")
    assert [one.grader_type.value for one in sdk.graders.list()] == ["JUDGE"]
    client.models.delete("a-judge")
    model = sdk.graders.get(grader_key="kind").grader_config.model
    assert (model.online.value, "no model 'a-judge'" in model.error) == ("OFFLINE", True)


@pytest.mark.parametrize(("name", "temperature"), [("openai/gpt-5-mini", None), ("o3", None), ("gpt-50", 0)])
def test_a_model_that_takes_only_its_own_temperature_is_sent_none(
    sdk: "Adaptive", service: Service, project: str, server: ModelServer, name: str, temperature: int | None
) -> None:
    service.client(project).models.update("a-judge", model=name)
    judge(sdk)
    assert server.bodies[-1].get("temperature") == temperature


def test_a_judge_of_a_model_that_is_not_there_is_not_kept(sdk: "Adaptive", service: Service, project: str) -> None:
    with refused("a-judge"):
        judge(sdk)
    assert service.client(project).graders.list() == []


def test_an_external_endpoint_is_registered_by_its_url_and_scores(
    sdk: "Adaptive", service: Service, project: str, server: ModelServer
) -> None:
    made = sdk.graders.create.external_endpoint(key="far", url=server.base_url)
    assert (made.grader_type.value, made.grader_config.url) == ("REMOTE", server.base_url)
    client = service.client(project)
    assert client.score("far", [{"completion": "x"}])[0].score == 0.25
    sdk.graders.create.external_endpoint(key="again", url=server.base_url)
    assert [(one.key, one.url) for one in client.endpoints.list()] == [("far", server.base_url)]
    with ModelServer(Script(behave="status", status=400)) as wrong, refused("gave no score"):
        sdk.graders.create.external_endpoint(key="away", url=wrong.base_url)
    with refused("http"):
        sdk.graders.create.external_endpoint(key="away", url="ftp://x")
    assert [one.key for one in client.endpoints.list()] == ["far"]
    assert {one.key: one.kind for one in client.graders.list()} == {"again": "external", "far": "external"}


@pytest.mark.parametrize(
    ("verdict", "score"), [('{"1": {"reason": "r", "supported": true}}', 1.0), ('{"1": {"reason": "r"}}', None)]
)
def test_a_prebuilt_judge_runs(
    sdk: "Adaptive",
    ask: Callable[..., Any],
    service: Service,
    project: str,
    server: ModelServer,
    verdict: str,
    score: float | None,
) -> None:
    made = sdk.graders.create.prebuilt_judge(key="true", type="FAITHFULNESS", judge_model="a-judge")
    assert (made.grader_type.value, made.metric.kind.value) == ("PREBUILT", "SCALAR")
    assert made.grader_config.prebuilt_criteria.key.value == "FAITHFULNESS"
    assert (made.grader_config.model.key, made.grader_config.model.online.value) == ("a-judge", "ONLINE")
    client = service.client(project)
    assert client.graders.get("true").kind == "faithfulness"
    replies = (("[begin claim 1 ", verdict), ("This answer cannot be used", verdict))
    server.script = Script(reply='{"claims": ["Paris is the capital."]}', replies=replies, schemas=False)
    thread = {
        "messages": [
            {"role": "document", "content": "Paris is the capital of France."},
            {"role": "user", "content": "What is the capital?"},
            {"role": "assistant", "content": "Paris."},
        ]
    }
    (outcome,) = client.score("true", [thread])
    assert outcome.score == score
    if score is None:
        assert outcome.error is not None and (outcome.error.kind, outcome.error.cause) == ("model", "invalid_reply")
    create = {"name": "r", "key": "r", "graderType": "PREBUILT"}
    for criteria in ("CONTEXT_RELEVANCY", "FAITHFULNESS"):
        config = {"prebuilt": {"key": criteria, "model": "a-judge"}}
        ask(CREATE, project=project, input={**create, "key": criteria.lower(), "graderConfig": config})
        assert client.graders.get(criteria.lower()).kind == criteria.lower()
    (bare,) = client.score("true", [{"prompt": "q", "completion": "c"}])
    assert bare.not_applicable is not None and "no documents" in bare.not_applicable


def test_custom_graders_come_back(sdk: "Adaptive", service: Service, project: str) -> None:
    custom = sdk.graders.create.custom(key="own", description="mine")
    bare = sdk.graders.create.custom(key="bare")

    assert custom.grader_config.grader_description == "mine"
    assert bare.grader_config.grader_description is None
    assert [(one.key, one.grader_type.value) for one in sdk.graders.list()] == [("bare", "CUSTOM"), ("own", "CUSTOM")]
    kinds = {grader.key: grader.kind for grader in service.client(project).graders.list()}
    assert kinds == {"bare": "custom", "own": "custom"}


def test_a_grader_is_got_locked_and_deleted_by_key_or_id(sdk: "Adaptive", service: Service, project: str) -> None:
    made = function(sdk, fn=SOURCE)
    assert str(UUID(made.id)) == made.id
    for ref in ("says-four", made.id):
        assert sdk.graders.get(grader_key=ref).id == made.id

    assert sdk.graders.lock(grader_key=made.id, locked=True).locked
    with refused("'says-four' is locked: unlock it"):
        sdk.graders.delete(grader_key="says-four")
    assert not sdk.graders.lock(grader_key="says-four", locked=False).locked
    assert sdk.graders.delete(grader_key=made.id) is True
    with pytest.raises(NotFound):
        service.client(project).graders.get("says-four")
    assert function(sdk, fn=SOURCE).id != made.id, "a new grader of an old key is another one"


def test_a_grader_that_is_not_there_is_named(sdk: "Adaptive") -> None:
    graders = sdk.graders
    for call in (graders.get, partial(graders.lock, locked=True), graders.delete):
        with refused("there is no grader 'my-model' in project"):
            call(grader_key="my-model")


def test_a_key_that_is_taken_or_none_is_refused(sdk: "Adaptive") -> None:
    function(sdk, fn=SOURCE)
    with refused(r"there is a grader 'says-four' in project .* already"):
        function(sdk, fn=SOURCE)
    with refused(r"\$\.key"):
        sdk.graders.create.custom(key="Upper")


def test_an_update_changes_what_it_names(sdk: "Adaptive", service: Service, project: str) -> None:
    from adaptive_sdk.graphql_client import GraderUpdateInput

    function(sdk, fn=SOURCE, description="one")

    def update(**fields: Any) -> Any:
        wanted = GraderUpdateInput.model_validate(fields)
        return sdk._gql_client.update_grader(project, "says-four", wanted).update_grader

    assert update(name="Four").name == "Four"
    assert service.client(project).graders.get("says-four").version == 1
    changed = update(graderConfig={"function": {"sourceCode": SOURCE.replace("1", "0"), "description": "none"}})
    assert (changed.name, changed.grader_config.function_description) == ("Four", "none")
    assert service.client(project).graders.get("says-four").version == 2
    with refused("check 'syntax' failed"):
        update(graderConfig={"function": {"sourceCode": "async def"}})
    with refused("graderConfig holds custom"):
        update(graderConfig={"custom": {"description": "x"}})
    with refused("has another type, which cannot change"):
        update(graderType="CUSTOM")
    assert service.client(project).graders.get("says-four").version == 2


def test_an_update_of_a_config_is_a_new_version(
    ask: Callable[..., Any], service: Service, project: str, server: ModelServer
) -> None:
    url, other = server.base_url, server.base_url.replace("127.0.0.1", "localhost")
    created = {"name": "o", "key": "o", "graderType": "REMOTE", "graderConfig": {"remote": {"url": url}}}
    assert "errors" not in ask(CREATE, project=project, input=created)

    answer = ask(UPDATE, p=project, k="o", i={"name": "O", "graderConfig": {"remote": {"url": other}}})

    assert answer == {"data": {"updateGrader": {"name": "O", "graderConfig": {"url": other}}}}
    versions = service.client(project).graders.versions("o")
    assert [version.config for version in versions] == [{"endpoint": "o"}, {"endpoint": "o-2"}]


def test_an_update_keeps_the_settings_that_the_sdk_does_not_have(
    ask: Callable[..., Any], service: Service, project: str, server: ModelServer
) -> None:
    client = service.client(project)
    client.graders.create.binary_judge(
        key="b", criteria="x", judge_model="a-judge", template_variables={"tone": "dry"}, temperature=None, seed=3
    )
    threads: list[Thread] = [{"prompt": "q", "completion": "a", "metadata": {"found": []}}]
    of_documents: dict[str, Any] = {"judge_model": "a-judge", "documents": "metadata.found", "seed": 3}
    client.graders.create.context_relevancy(key="c", threads=threads, **of_documents)
    judge = {"model": "a-judge", "criteria": "y", "examples": [], "systemTemplate": "{{criteria}}", "userTemplate": "u"}
    prebuilt = {"key": "CONTEXT_RELEVANCY", "model": "b-judge"}
    client.models.create("b-judge", base_url=server.base_url, model="m")

    for key, config in (("b", {"judge": judge}), ("c", {"prebuilt": prebuilt})):
        assert "errors" not in ask(UPDATE, p=project, k=key, i={"graderConfig": config})

    of_judge, of_prebuilt = (client.graders.versions(key)[-1].config or {} for key in ("b", "c"))
    kept: dict[str, Any] = {"template_variables": {"tone": "dry"}, "temperature": None, "seed": 3}
    assert {name: of_judge[name] for name in ("criteria", *kept)} == {"criteria": "y"} | kept
    kept = {"documents": "metadata.found", "seed": 3}
    assert {name: of_prebuilt[name] for name in ("judge_model", *kept)} == {"judge_model": "b-judge"} | kept


def test_a_judge_with_options_is_not_updated_to_one_without(
    ask: Callable[..., Any], service: Service, project: str, server: ModelServer
) -> None:
    client = service.client(project)
    client.graders.create.judge(key="tone", criterion="Is it polite?", judge_model="a-judge", ask="stand-in")
    config = {"model": "a-judge", "criteria": "x", "examples": [], "systemTemplate": "", "userTemplate": ""}

    answer = ask(UPDATE, p=project, k="tone", i={"name": "Tone", "graderConfig": {"judge": config}})

    assert "chooses among options" in answer["errors"][0]["message"]
    assert [version.kind for version in client.graders.versions("tone")] == ["judge"]
    named = ask(UPDATE, p=project, k="tone", i={"name": "Tone"})
    assert named == {"data": {"updateGrader": {"name": "Tone", "graderConfig": {}}}}


def test_a_config_of_another_type_and_a_metric_upside_down_are_refused(ask: Callable[..., Any], project: str) -> None:
    grader = {"name": "x", "key": "x", "graderType": "CUSTOM", "graderConfig": {"custom": {}}}
    both = {"custom": {}, "remote": {"url": "http://x.example"}}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"graderType": "JUDGE"}, "a grader of type JUDGE takes one config, its own"),
        ({"graderConfig": both}, "graderConfig holds remote, custom"),
        ({"graderConfig": {}}, "graderConfig holds nothing"),
        ({"key": None}, "a grader has a key"),
        ({"metric": {"name": "x", "kind": "SCALAR", "scoringType": "LOWER_IS_BETTER"}}, "negate what the grader"),
    ]
    for fields, expected in refused:
        answer = ask(CREATE, project=project, input={**grader, **fields})
        assert expected in answer["errors"][0]["message"]
