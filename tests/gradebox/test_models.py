"""Models through `gradebox serve`, the client and the command line; no key of theirs is left anywhere."""

from pathlib import Path

import pytest

from examples.model_server import ModelServer, Script
from gradebox import ModelDefaults
from gradebox.errors import CannotServe, Conflict, NotAllowed
from gradebox.service.models import read
from tests.gradebox.conftest import serving

SECRET = "sk-very-secret-of-a-model-0123456789"
OTHER = "sk-another-secret-of-a-model-9876543210"


@pytest.mark.service
def test_models_of_a_service(tmp_path: Path) -> None:
    with ModelServer(Script(api_key=SECRET)) as server, ModelServer(Script(behave="echo-key")) as echo:
        named = f"small-judge=qwen3:8b@{server.base_url}"
        settings = {"model_key_small_judge": SECRET, "log_level": "debug"}
        with serving(tmp_path, "--workers", "1", "--model", named, **settings) as service:
            client = service.client()
            model = client.models.get("small-judge")
            assert (model.model, model.base_url, model.has_api_key) == ("qwen3:8b", server.base_url, True)
            trial = client.models.test("small-judge")
            assert (trial.passed, trial.structured_output, trial.logprobs) == (True, True, True), trial

            client.models.create(
                "echo", base_url=echo.base_url, model="m", api_key=OTHER, defaults=ModelDefaults(temperature=0)
            )
            error = client.models.test("echo").error
            assert error is not None
            assert error.kind == "refused"
            assert OTHER not in error.message
            assert client.models.update("echo", timeout_s=3).timeout_s == 3
            with pytest.raises(Conflict):
                client.models.update("echo", base_url=server.base_url)
            with pytest.raises(NotAllowed):
                client.models.create("meta", base_url="http://169.254.169.254/v1", model="m")

            service.environment["JUDGE_KEY"] = OTHER
            made = service.run(
                "models", "create", "cli", "--base-url", server.base_url, "--model", "m", "--key-env", "JUDGE_KEY"
            )
            assert made.returncode == 0, made.stderr
            assert service.run("models", "test", "cli").returncode == 1
            service.environment["JUDGE_KEY"] = SECRET
            assert service.run("models", "update", "cli", "--key-env", "JUDGE_KEY").returncode == 0
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
            assert service.run("models", "delete", "cli", "--yes").returncode == 0
            assert [one.key for one in client.models.list()] == ["echo", "small-judge"]
            client.models.delete("echo")
            said = "".join(part for run in (made, tested, listed, shown) for part in (run.stdout, run.stderr))
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


def test_how_serve_is_told_of_a_model() -> None:
    environment = {"GRADEBOX_MODEL_KEY_SMALL_JUDGE": SECRET}
    found = read("small-judge=org/name@http://127.0.0.1:8000/v1", environment)
    assert (found.key, found.name, found.base_url, found.api_key) == (
        "small-judge", "org/name", "http://127.0.0.1:8000/v1", SECRET
    )  # fmt: skip
    assert SECRET not in repr(found)
    assert read("other=m@http://127.0.0.1:8000/v1", environment).api_key == ""
    for text in ("judge", "judge=m", "judge=m@127.0.0.1", "judge=m@http://user:pw@127.0.0.1/v1"):
        with pytest.raises(CannotServe, match="KEY=NAME@BASE_URL") as error:
            read(text, {})
        assert "pw" not in str(error.value)
