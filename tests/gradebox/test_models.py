"""Tests of models with `gradebox serve`, the client and the command line, and that their keys are left nowhere."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from typer import BadParameter

from examples.model_server import ModelServer, Script
from gradebox import Client, ModelDefaults
from gradebox.cli.registered_servers import headers
from gradebox.errors import CannotServe, Conflict, NotAllowed
from gradebox.key_file import KEY_FILE
from gradebox.service.models import read_endpoint, read_model, refuse_same_key
from tests.gradebox.conftest import serving

SECRET = "sk-very-secret-of-a-model-0123456789"
OTHER = "sk-another-secret-of-a-model-9876543210"


def _models_when_ready(url: str, key: Path) -> list[str]:
    """The models that a script finds which waits for `/readyz`."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz").status_code == 200:
                break
        time.sleep(0.002)
    with Client(url, key.read_text().strip()) as client:
        return [model.key for model in client.models.list()]


@pytest.mark.service
def test_models_of_a_service(tmp_path: Path) -> None:
    with ModelServer(Script(api_key=SECRET)) as server, ModelServer(Script(behave="echo-key")) as echo:
        named = f"small-judge=qwen3:8b@{server.base_url}"
        reward = f"my-reward={server.base_url}"
        settings = {"model_key_small_judge": SECRET, "endpoint_key_my_reward": SECRET, "log_level": "debug"}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        options = ("--port", port, "--workers", "1", "--model", named, "--endpoint", reward)
        script = ThreadPoolExecutor(1)
        seen = script.submit(_models_when_ready, f"http://127.0.0.1:{port}", tmp_path / "data" / KEY_FILE)
        with script, serving(tmp_path, *options, **settings) as service:
            assert seen.result(60) == ["small-judge"]  # readyz was 200 before they were registered
            client = service.client()
            model = client.models.get("small-judge")
            assert (model.model, model.base_url, model.has_api_key) == ("qwen3:8b", server.base_url, True)
            trial = client.models.test("small-judge")
            assert (trial.passed, trial.structured_output, trial.logprobs) == (True, True, True), trial

            client.models.put(
                "echo", base_url=echo.base_url, model="m", api_key=OTHER, defaults=ModelDefaults(temperature=0)
            )
            error = client.models.test("echo").error
            assert error is not None and error.kind == "refused"
            assert OTHER not in error.message
            assert client.models.update("echo", timeout_s=3).timeout_s == 3
            with pytest.raises(Conflict):
                client.models.update("echo", base_url=server.base_url)
            with pytest.raises(TypeError, match=r"timeouts= is no option of a model: pass one of .*timeout_s="):
                client.models.update("echo", timeouts=None)  # type: ignore[call-arg]  # misspelt
            with pytest.raises(TypeError, match="timeouts= is no option of an endpoint"):
                client.endpoints.put("echo", url=echo.base_url, timeouts=3)  # type: ignore[call-arg]  # misspelt
            with pytest.raises(NotAllowed):
                client.models.create("meta", base_url="http://169.254.169.254/v1", model="m")

            priced = client.models.update(
                "echo", input_price=0.15, output_price=0.6, requests_per_minute=60, keep_replies=False
            )
            assert (priced.output_price, priced.requests_per_minute, priced.keep_replies) == (0.6, 60, False)
            assert client.models.update("echo", requests_per_minute=0, max_concurrency=2).requests_per_minute is None

            endpoint = client.endpoints.get("my-reward")
            assert (endpoint.url, endpoint.has_api_key, endpoint.max_concurrency) == (server.base_url, True, 16)
            assert client.endpoints.test("my-reward").reward == 0.5
            refused = client.endpoints.put("echo", url=echo.base_url, api_key=OTHER, requests_per_minute=60)
            assert refused.requests_per_minute == 60
            assert client.endpoints.put("echo", url=echo.base_url).has_api_key
            fault = client.endpoints.test("echo").error
            assert fault is not None and OTHER not in fault.message
            with pytest.raises(Conflict):
                client.endpoints.update("echo", url=server.base_url)
            assert [one.key for one in client.endpoints.list()] == ["echo", "my-reward"]
            client.endpoints.delete("echo")

            service.environment["JUDGE_KEY"] = SECRET
            url = ("--endpoint-url", server.base_url)
            kept = service.run("endpoints", "create", "cli", *url, "--key-env", "JUDGE_KEY", "--max-concurrency", "3")
            assert kept.returncode == 0, kept.stderr
            assert "its reward is 0.5" in service.run("endpoints", "test", "cli").stdout
            service.ok("endpoints", "update", "cli", "--key-env", "")
            service.refused("endpoints", "test", "cli")
            service.ok(
                "endpoints", "update", "cli", "--header-env", "X-API-Key=JUDGE_KEY", "--header-env", "X-Home=HOME"
            )
            assert client.endpoints.test("cli").passed
            with pytest.raises(TypeError, match="headers= is no option of a model"):
                client.models.update("echo", headers={})  # type: ignore[call-arg]  # endpoints alone have some
            assert '"max_concurrency": 3' in service.run("endpoints", "show", "cli").stdout
            table = service.ok("endpoints", "list")
            assert all(shown in table for shown in ("cli", "my-reward", "X-API-Key, X-Home"))
            assert client.endpoints.update("cli", headers={"X-API-Key": OTHER}).header_names == ["X-API-Key"]
            assert not client.endpoints.test("cli").passed
            assert client.endpoints.put("cli", url=server.base_url, headers={}).header_names == []
            service.ok("endpoints", "delete", "cli", "--yes")

            assert client.budget.set(usd=20, period="day").is_spent is False
            assert "20 USD each day; 0 USD and 45 tokens are spent" in service.run("budget", "show").stdout
            assert "0.00001 USD each month" in service.run("budget", "set", "--usd", "0.00001").stdout
            none = service.run("budget", "set", "--tokens", "0")
            assert "0 tokens each month; 0 USD and 45 tokens are spent\nthe budget is used up" in none.stdout
            assert client.budget.get().is_spent
            service.refused("budget", "set", "--period", "day", code=2)
            service.ok("budget", "delete")
            assert client.budget.get().tokens is None
            assert client.spending().total.asks == 4  # of the tests
            assert client.spending("2001-01").total.asks == 0
            assert service.run("spending", "--period", "2001-01").stdout.split()[-1] == "0"
            service.refused("spending", "--period", "may")

            service.environment["JUDGE_KEY"] = OTHER
            made = service.run(
                "models", "create", "cli", "--base-url", server.base_url, "--model", "m", "--key-env", "JUDGE_KEY"
            )
            assert made.returncode == 0, made.stderr
            service.refused("models", "test", "cli")
            service.environment["JUDGE_KEY"] = SECRET
            prices = ("--input-price", "0.15", "--output-price", "0.6", "--no-keep-replies")
            service.ok("models", "update", "cli", "--key-env", "JUDGE_KEY", *prices)
            assert client.models.get("cli").input_price == 0.15
            assert client.models.get("cli").keep_replies is False
            service.ok("models", "update", "cli", "--input-price", "1")
            tested = service.run("models", "test", "cli")
            assert tested.returncode == 0, tested.stderr
            assert "structured output: yes, log probabilities: yes" in tested.stdout
            listed = service.run("models", "list")
            assert all(key in listed.stdout for key in ("cli", "echo", "small-judge"))
            shown = service.run("models", "show", "cli")
            assert '"has_api_key": true' in shown.stdout
            assert service.run(
                "models", "create", "x", "--base-url", "u", "--model", "m", "--key-env", "NONE"
            ).returncode
            service.ok("models", "delete", "cli", "--yes")
            assert [one.key for one in client.models.list()] == ["echo", "small-judge"]
            client.models.delete("echo")
            said = "".join(part for run in (kept, made, tested, listed, shown) for part in (run.stdout, run.stderr))
            assert SECRET not in said
            assert OTHER not in said
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"api.log", "secret-key"} <= {file.name for file in files}
    assert any(b"gradebox:models" in file.read_bytes() for file in files if file.parent.name == "appendonlydir")
    for file in files:
        for secret in (SECRET, OTHER):
            assert secret.encode() not in file.read_bytes(), f"{file} holds a key"
            assert secret.encode()[3:20] not in file.read_bytes(), f"{file} holds a part of a key"
    assert (tmp_path / "data" / "secret-key").stat().st_mode & 0o777 == 0o600


def test_headers_of_the_command_line_are_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET", SECRET)
    assert headers(["X-API-Key=SET", "X-Team=SET"]) == {"X-API-Key": SECRET, "X-Team": SECRET}
    assert (headers(None), headers([""])) == (None, {})
    for wrong in (["X-API-Key=UNSET"], ["X-API-Key"], ["=SET"], ["X-API-Key="], ["X-A=SET", ""], ["X-A=SET"] * 2):
        with pytest.raises(BadParameter):
            headers(wrong)


def test_how_serve_is_told_of_a_model() -> None:
    environment = {"GRADEBOX_MODEL_KEY_SMALL_JUDGE": SECRET}
    found = read_model("small-judge=org/name@http://127.0.0.1:8000/v1", environment)
    assert (found.key, found.api_key) == ("small-judge", SECRET)
    assert found.settings == {"model": "org/name", "base_url": "http://127.0.0.1:8000/v1"}
    assert SECRET not in repr(found)
    assert read_model("other=m@http://127.0.0.1:8000/v1", environment).api_key == ""
    for text in ("judge", "judge=m", "judge=m@127.0.0.1", "judge=m@http://user:pw@127.0.0.1/v1"):
        with pytest.raises(CannotServe, match="KEY=NAME@BASE_URL") as error:
            read_model(text, {})
        assert "pw" not in str(error.value)


def test_serve_takes_no_two_models_of_one_key() -> None:
    models = [read_model(f"{key}=m@http://127.0.0.1:{port}/v1", {}) for key, port in (("a", 1), ("b", 2), ("a", 3))]
    endpoints = [read_endpoint(f"{key}=http://127.0.0.1:1", {}) for key in ("a", "b", "b")]
    refuse_same_key([*models[:2], *endpoints[:2]])
    with pytest.raises(CannotServe, match="--model names 'a' twice"):
        refuse_same_key(models)
    with pytest.raises(CannotServe, match="--endpoint names 'b' twice"):
        refuse_same_key(endpoints)


def test_how_serve_is_told_of_an_endpoint() -> None:
    environment = {"GRADEBOX_ENDPOINT_KEY_MY_REWARD": SECRET, "GRADEBOX_MODEL_KEY_OTHER": SECRET}
    found = read_endpoint("my-reward=http://127.0.0.1:9000/mine", environment)
    assert (found.key, found.settings) == ("my-reward", {"url": "http://127.0.0.1:9000/mine"})
    assert found.api_key == SECRET
    assert SECRET not in repr(found)
    assert read_endpoint("other=http://127.0.0.1:9000", environment).api_key == ""
    for text in ("my-reward", "my-reward=127.0.0.1", "my-reward=http://user:pw@127.0.0.1"):
        with pytest.raises(CannotServe, match="KEY=URL") as error:
            read_endpoint(text, {})
        assert "pw" not in str(error.value)
