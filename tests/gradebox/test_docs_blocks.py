"""Tests of the code blocks of README.md and docs/: run Python and curl with a service, parse commands, read JSON.

tests/examples tests the scores of the graders on the pages. tests/gradebox/cli/test_docs.py and tests/test_docs.py
test that all options and settings are documented.
"""

import ast
import asyncio
import importlib.util
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import typer
import yaml

from api.settings import ApiSettings
from gradebox import Client, StringThread
from gradebox.cli import app
from gradebox.errors import EnvironmentFailed
from gradebox.group_forms import members
from gradebox.thread_forms import is_group
from models.settings import ModelSettings
from sandbox.settings import SandboxSettings
from storage.settings import StorageSettings
from tests.gradebox.conftest import ROOT, Service
from tests.wheels import skip_without_index
from worker.environments.settings import EnvironmentSettings
from worker.settings import WorkerSettings

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
LANGUAGES = {"python", "sh", "json", "yaml", "ini", "text"}

# Programs that these tests do not run, and why. `_check_other` checks their lines in part.
NOT_RUN = {
    "docker": "needs an engine, images and a network; tests/test_compose.py runs the stack",
    "docker-compose": "as above",
    "redis-cli": "tests/gradebox/service/test_backup.py runs the block",
    "until": "as above",
    "jq": "tests/examples/test_threads_page.py runs it",
    "cp": "as above",
    "sudo": "makes a folder of the machine's",
    "printf": "tests/test_deployment.py runs them",
    "make": "the targets run for minutes",
    "scripts/images": "fetches Debian's packages",
    "GRADEBOX_BASE=my-base": "starts docker-compose",
}
# Functions that pages define and these tests do not call, and why.
NOT_CALLED = {"train": "TRL is not installed", "rewarded": "verifiers is not installed"}
# Blocks that are not code.
PICTURES = {"README.md": 1}


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.page}: {self.text.splitlines()[0][:50]}"


def _blocks() -> Iterator[Block]:
    for path in PAGES:
        for language, text in FENCE.findall(path.read_text(encoding="utf-8")):
            yield Block(str(path.relative_to(ROOT)), language, text)


BLOCKS = list(_blocks())


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert {block.id: block.language for block in BLOCKS if block.language not in LANGUAGES} == {}
    pictures = [block.page for block in of("text")]
    assert {page: pictures.count(page) for page in pictures} == PICTURES


# Python

THREADS = [
    StringThread([("user", "What is 6 x 7?"), ("assistant", "It is 42.")], {"answer": "42"}),
    StringThread([("user", "What is 6 x 7?"), ("assistant", "No idea.")], {"answer": "42"}),
]
ROW = {"prompt": "2+2?", "completion": "4", "metadata": {"answer": "4", "expected": "4", "target": "4"}}
CONTAINS = "async def grade(thread):\n    return float(thread.metadata['answer'] in thread.completion())\n"
EXACT = "async def grade(thread):\n    return float(thread.metadata.get('answer', '4') == thread.completion())\n"
KEYS = {
    "has-answer", "short", "contains-answer", "exact-match", "promptfoo-assert", "close-enough", "says-four",
    "shortest",
}  # fmt: skip

Names = dict[str, Any]


def _of_readme(names: Names, _: Client) -> None:
    assert names["rewards"] == [1.0, 0.0]


def _of_python(names: Names, _: Client) -> None:
    assert names["batch"].summary[0].mean == 0.5


def _of_openai(names: Names, _: Client) -> None:
    assert names["result"].reward == 1.0
    names["batch"].wait(progress=False)
    assert [outcome.score for outcome in names["batch"].outcomes()] == [1.0, 1.0]


def _of_rl(names: Names, _: Client) -> None:
    assert names["rewards"] == [1.0]
    asked: Names = {"prompts": ["6 x 7?"] * 2, "completions": ["It is 42.", "42"], "answer": ["42", "42"]}
    assert names["grader"].as_trl_reward()(**asked) == [1.0, 1.0]
    assert names["reward"](**asked) == [0.7, 1.0]
    assert names["by_workers"](**asked) == [1.0, 1.0]
    assert names["compute_score"]("sums", "It is 42.", None, {"answer": "42"}) == 1.0
    with patch.dict(sys.modules, torch=SimpleNamespace(tensor=list)):  # torch is not installed
        scored = names["reward_func"](["6 x 7?It is 42.<|im_end|>", "6 x 7?"], ["6 x 7?"] * 2, ["42", "42"])
    assert scored == {"rewards": [1.0, 0.0], "scores": [1.0, 0.0]}
    sample = SimpleNamespace(prompt="6 x 7?", response="It is 42.", label="42", metadata={})
    assert asyncio.run(names["custom_rm"](None, sample)) == 1.0
    rewards = names["tournament"](prompts=["a", "a", "b", "b"], completions=["x", "xx", "xxx", "x"])
    assert rewards == [1.0, 0.0, 0.0, 1.0]


def _creates(key: str) -> Callable[[Names, Client], None]:
    def check(_: Names, client: Client) -> None:
        assert client.graders.get(key).version == 1

    return check


def _of_reward(names: Names, _: Client) -> None:
    assert names["response"].reward == 1.0


def _of_environments(names: Names, client: Client) -> None:
    package = Path("packages/langdetect")  # stands for the package, whose index has no wheel
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "class DetectorFactory: pass\ndef detect(text): return 'en' * ('the' in text)\n"
    )
    client.environments.create("english", data="packages")
    grader = client.graders.create.function(key="is-english", fn=names["is_english"], environment="english")
    assert [each.score for each in grader.score([{"completion": "the cat"}, {"completion": "le chat"}])] == [1.0, 0.0]
    assert grader.warnings == []
    client.graders.delete("is-english")
    environment = client.graders.get("close-enough").environment
    assert environment is not None and environment.label == "fuzzy@1"
    newest = client.environments.get("nlp").newest
    assert newest is not None and newest.data


def _of_models(names: Names, client: Client) -> None:
    assert names["trial"].passed or names["trial"].error.kind == "unreachable"
    assert client.models.get("small-judge").has_api_key
    assert client.models.get("small-judge").input_price == 0.15
    client.models.delete("small-judge")
    assert names["endpoint_trial"].passed or names["endpoint_trial"].error.kind == "unreachable"
    client.endpoints.delete("my-reward")
    assert client.budget.get() == names["budget"]
    client.budget.delete()


def _of_numbers(names: Names, _: Client) -> None:
    (summary,) = names["batch"].summary
    assert summary.interval is not None
    assert (summary.interval.method, summary.passed, summary.pass_rate) == ("bca", 1, 0.5)
    assert names["by_answer"].to_dict("index") == {"42": {"count": 2, "mean": 0.5}}
    assert (names["compared"].pairs, names["compared"].difference, names["compared"].flips) == (2, 0.0, [])


def _of_tables(names: Names, _: Client) -> None:
    rows = [(row.index, row.score, row.completion) for row in names["worst"].rows]
    assert rows == [(1, 0.0, "No idea."), (0, 1.0, "It is 42.")]
    assert names["failed"].total == 0
    said = [StringThread.from_object(thread).completion() for thread in names["threads"]]
    assert said == ["No idea.", "It is 42."]


def _of_threads(names: Names, client: Client) -> None:
    assert names["score"](client, [{"question": "q", "response": "42", "answer": "42"}]) == [1.0]


def _of_promptfoo(names: Names, _: Client) -> None:
    asked = {"prompt": "6 x 7?", "vars": {"answer": "42"}}
    assert names["get_assert"]("It is 42.", asked)["pass"]
    for output in ({"é": 42}, [42], 42):
        text = json.dumps(output, ensure_ascii=False).replace(" ", "")  # as the webhook gets it from JSON.stringify
        assert names["get_assert"](output, {"prompt": "6 x 7?", "vars": {"answer": text}})["pass"]
    with pytest.raises(ValueError, match="null"):
        names["get_assert"](None, asked)
    with pytest.raises(RuntimeError, match="no score"):
        names["get_assert"]("It is 42.", {"prompt": "6 x 7?", "vars": {}})
    answer = names["call_api"]("6 x 7?", {}, {"vars": {"question": "42", "answer": "42"}})
    assert answer == {"output": "It is 42.", "metadata": {"score": 1.0}}
    assert "no score" in names["call_api"]("6 x 7?", {}, {"vars": {"question": "42"}})["error"]


class Page(NamedTuple):
    """A check after a page's blocks have run, and the graders that the page expects to exist."""

    check: Callable[[Names, Client], None]
    graders: tuple[str, ...] = ()


RUN = {
    "README.md": Page(_of_readme),
    "docs/adaptive.md": Page(_creates("is-short")),
    "docs/environments.md": Page(_of_environments),
    "docs/graders.md": Page(_creates("contains-answer")),
    "docs/models.md": Page(_of_models),
    "docs/numbers.md": Page(_of_numbers, ("has-answer", "short")),
    "docs/openai.md": Page(_of_openai),
    "docs/other-graders.md": Page(_creates("promptfoo-assert")),
    "docs/promptfoo.md": Page(_of_promptfoo, ("has-answer",)),
    "docs/python.md": Page(_of_python),
    "docs/reward.md": Page(_of_reward, ("exact-match",)),
    "docs/rl.md": Page(_of_rl, ("has-answer", "short")),
    "docs/tables.md": Page(_of_tables, ("has-answer",)),
    "docs/threads.md": Page(_of_threads, ("has-answer",)),
}


RUN_ELSEWHERE = {
    "docs/checks.md",  # in tests/examples/test_checks_page.py: its blocks use each other's graders, and one asks
    "docs/feedback.md",  # in tests/gradebox/service/test_feedback.py: it needs a model
    "docs/judges.md",  # in tests/examples/test_judges_page.py: its graders ask
    "docs/langfuse.md",  # in tests/api/dialects/langfuse/test_page.py: Langfuse runs it
    "docs/weave.md",  # in tests/api/dialects/weave/test_page.py, and by `make clients`: it needs weave
}


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A client. Deletes the graders that pages create, before and after."""
    with service.client() as client:
        _delete_graders(client)
        yield client
        _delete_graders(client)


def _delete_graders(client: Client) -> None:
    for grader in client.graders.list():
        if grader.key in KEYS:
            client.graders.delete(grader.key)


@pytest.fixture
def folder(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a user, with the files that pages name. The environment variables name the service."""
    lines = "".join(thread.to_json() + "\n" for thread in THREADS)
    (tmp_path / "examples").mkdir()
    for name in ("completions.jsonl", "threads.jsonl", "examples/completions.jsonl"):
        (tmp_path / name).write_text(lines)
    (tmp_path / "nltk_data/corpora/stopwords").mkdir(parents=True)
    (tmp_path / "nltk_data/corpora/stopwords/english").write_text("the\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADEBOX_URL", service.url)
    monkeypatch.setenv("GRADEBOX_API_KEY", service.key)
    return tmp_path


def run(source: str, path: Path, given: Names) -> ModuleType:
    """Runs a block as a separate file, from which functions can be uploaded. `await` may be at its top level."""
    path.write_text(source, encoding="utf-8")
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    module.__dict__.update(given)
    sys.modules[path.stem] = module
    code: CodeType = compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waiting = eval(code, module.__dict__)
    if inspect.iscoroutine(waiting):
        asyncio.run(waiting)
    return module


def test_each_page_with_python_has_a_check() -> None:
    assert {block.page for block in of("python")} == RUN.keys() | RUN_ELSEWHERE


@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.parametrize("page", RUN)
def test_the_python_of_a_page_runs(page: str, service: Service, client: Client, folder: Path) -> None:
    for key in RUN[page].graders:
        client.graders.create.function(key=key, fn=CONTAINS if key == "has-answer" else EXACT, threads=[ROW])
    names: Names = {"StringThread": StringThread, "client": client, "row": ROW, "threads": THREADS}
    place = service.url.removeprefix("http://")
    for number, block in enumerate(block for block in of("python") if block.page == page):
        text = block.text.replace("127.0.0.1:8000", place).replace("gbx_…", service.key)
        stem = f"page_{Path(page).stem.replace('-', '_').lower()}_{number}"
        try:
            module = run(text, folder / f"{stem}.py", names)
        except EnvironmentFailed as failed:
            skip_without_index(failed)
            raise
        names |= {name: value for name, value in vars(module).items() if not name.startswith("__")}
    RUN[page].check(names, client)


def test_functions_that_are_not_called_are_named() -> None:
    called = "\n".join(inspect.getsource(page.check) for page in RUN.values())
    trees = [ast.parse(block.text) for block in of("python") if block.page == "docs/rl.md"]
    defined = {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in defined if f'"{name}"' not in called} == NOT_CALLED.keys()


# Other formats


@pytest.mark.parametrize("block", of("json"), ids=lambda block: block.id)
def test_each_line_of_json_is_a_thread_or_a_group(block: Block) -> None:
    for line in block.text.splitlines():
        value = json.loads(line)
        assert all(StringThread.from_object(each) for each in (members(value) if is_group(value) else [value]))


def _of_prometheus(config: Any) -> None:
    for job in config["scrape_configs"]:
        assert job["job_name"]
        assert [*job.get("static_configs", []), *job.get("dns_sd_configs", [])]


def _of_compose(config: Any) -> None:
    """Langfuse's web and worker both have the settings that its sources need, and a network to the API."""
    assert config["services"].keys() == {"langfuse-web", "langfuse-worker"}
    ours = yaml.safe_load((ROOT / "compose.yaml").read_text())
    api = ours["services"]["api"]
    assert config["networks"]["gradebox"]["name"] == "gradebox_clients" and "clients" in ours["networks"]
    assert [name for name, one in ours["services"].items() if "clients" in one.get("networks", ())] == ["api"]
    for service in config["services"].values():
        assert "gradebox" in service["networks"] and service["environment"]["LANGFUSE_CODE_EVAL_DISPATCHER"]
        endpoint = service["environment"]["LANGFUSE_CODE_EVAL_AWS_LAMBDA_ENDPOINT"]
        named = re.fullmatch(r"http://(\w+):8000/langfuse/v1", endpoint)
        assert named is not None and named[1] in api["networks"]["clients"]["aliases"]
        assert "GRADEBOX_LANGFUSE_SECRET" in service["environment"]["AWS_SECRET_ACCESS_KEY"]
    assert "GRADEBOX_LANGFUSE_SECRET" in api["environment"]


def _of_an_eval(config: Any) -> None:
    """`make clients` runs it with promptfoo."""
    assert config.keys() == {"prompts", "providers", "tests"}


YAML = {"docs/langfuse.md": _of_compose, "docs/observability.md": _of_prometheus, "docs/promptfoo.md": _of_an_eval}


@pytest.mark.parametrize("block", of("yaml"), ids=lambda block: block.id)
def test_yaml_is_a_configuration_of_what_its_page_is_about(block: Block) -> None:
    YAML[block.page](yaml.safe_load(block.text))


# Commands

COMMAND = typer.main.get_command(app)
UsageError = typer.BadParameter.__mro__[1]  # typer does not export it
OURS = ("gradebox", ".venv/bin/gradebox")
SPANS = [
    (path.relative_to(ROOT), span)
    for path in PAGES
    for span in re.findall(r"`([^`\n]+)`", FENCE.sub("", path.read_text(encoding="utf-8")))
]
INLINE = [
    (page, span)
    for page, span in SPANS
    if re.match(r"(\.venv/bin/)?(gradebox |python -m |make [a-z])", span)
    or re.match(r"(graders|batches|environments|keys|models|endpoints|budget|projects) [a-z]+\b", span)
]


def commands(text: str) -> list[list[str]]:
    """The commands of a block, each as a list of words without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line.removeprefix("$ "), comments=True))]


def parse(words: list[str]) -> None:
    """Parses the words with the command line's parser, without running anything.

    Raises:
        UsageError: a command or an option does not exist, or an argument is missing.
    """
    command: Any = COMMAND
    context = None
    with suppress(typer.Exit):  # --version and --help
        while words or not hasattr(command, "commands"):  # a group may be named without a command
            context = command.make_context(command.name, words, parent=context)
            if not hasattr(command, "commands"):
                return
            _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with the names that pages use in commands."""
    examples = ("examples/completions.jsonl", "examples/graders/exact_match.py")
    (tmp_path / "examples" / "graders").mkdir(parents=True)
    for name in ("FILE", "[FILE]", "FILE.jsonl", "completions.jsonl", "grader.py", *examples):
        (tmp_path / name).touch()
    for name in ("FOLDER", "lists", "nltk_data"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)


def check(words: list[str]) -> None:
    """Fails if the command does not exist."""
    if words[0] in OURS:
        parse(words[1:])
    elif words[0] in ("graders", "batches", "environments", "keys", "models", "endpoints", "budget", "projects"):
        parse(words)
    elif words[1:2] == ["-m"]:
        _check_module(*words[2:])
    elif words[0] == "curl":
        assert words[1:]  # run below
    elif words[0].partition("=")[0] in SETTINGS:
        check(words[1:]) if words[1:] else None
    else:
        assert words[0] in NOT_RUN, f"nothing checks {shlex.join(words)}"
        _check_other(words)


SETTINGS = {
    f"{kind.model_config.get('env_prefix') or ''}{name}".upper()
    for kind in (ApiSettings, EnvironmentSettings, ModelSettings, SandboxSettings, StorageSettings, WorkerSettings)
    for name in kind.model_fields
}


def _check_module(name: str, *arguments: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).with_name("__main__.py") if spec.submodule_search_locations else Path(spec.origin)
    for argument in arguments:
        assert f'"{argument}"' in source.read_text(), f"{name} does not take {argument}"


def _check_other(words: list[str]) -> None:
    """Checks that the targets, services, stages and arguments of a command exist in this repository."""
    line = shlex.join(words)
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    if words[0].startswith("scripts/"):
        assert re.search(rf"^{words[1]}\(\)", (ROOT / words[0]).read_text(), re.MULTILINE)
    for name in re.findall(r"(?:--scale |\bexec )([a-z]+)", line):
        assert name in services
    for name in re.findall(r"--target ([a-z]+)", line):
        assert re.search(rf"^FROM .* AS {name}$", dockerfile, re.MULTILINE | re.IGNORECASE)
    for name in re.findall(r"--build-arg ([A-Z]+)=", line):
        assert re.search(rf"^ARG {name}\b", dockerfile, re.MULTILINE)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("block", of("sh"), ids=lambda block: block.id)
def test_the_commands_of_a_block_exist(block: Block) -> None:
    found = commands(block.text)
    assert found
    for words in found:
        check(words)


@pytest.mark.parametrize("block", of("ini"), ids=lambda block: block.id)
def test_a_unit_of_systemd_is_one_and_its_command_exists(block: Block, tmp_path: Path) -> None:
    unit = ConfigParser(interpolation=None)
    unit.read_string(block.text)
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    parse(arguments)
    names = dict(one.split("=") for one in shlex.split(unit["Service"]["Environment"]))
    assert names == dict.fromkeys(("GRADEBOX_DATA_DIR", "HOME"), f"/var/lib/{unit['Service']['StateDirectory']}")
    if shutil.which("systemd-analyze"):
        path = tmp_path / "gradebox.service"
        path.write_text(block.text.replace(program, sys.executable).replace("User=gradebox", "User=root"))
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and path.name not in done.stderr  # it may name faults of other units


@pytest.mark.usefixtures("files")
def test_the_commands_in_the_text_exist() -> None:
    for page, span in INLINE:
        try:
            check(shlex.split(span))
        except Exception as error:
            error.add_note(f"{page}: {span}")
            raise


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "line",
    [
        "gradebox grade x",
        "gradebox score a FILE.jsonl --fast",
        "gradebox graders diff",
        "gradebox batches stop 1",
        "make nothing",
        "python -m benchmarks --slow",
        "docker-compose exec web true",
        "nonsense",
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises((AssertionError, UsageError)):
        check(shlex.split(line))


CURL = [block for block in of("sh") if re.search(r"^curl ", block.text, re.MULTILINE)]


@pytest.mark.service
@pytest.mark.sandbox
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
@pytest.mark.parametrize("block", CURL, ids=lambda block: block.id)
def test_curl_gets_an_answer(block: Block, client: Client, folder: Path) -> None:
    client.graders.create.function(key="exact-match", fn=EXACT)
    done = subprocess.run(["sh", "-c", block.text], cwd=folder, env=os.environ, capture_output=True, check=True)
    answer = json.loads(done.stdout)
    if "/weave/" in block.text:
        assert answer == {"schema_version": 1, "result": {"value": 1.0}}
        return
    if "/graders" in block.text:
        assert client.graders.get(answer["key"]).version == 1
        return
    batch = client.batches.get(answer["id"])
    batch.wait(progress=False)
    assert batch.state == "finished"
