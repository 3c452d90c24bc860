"""`make clients`: runs the code in docs/ with promptfoo and W&B's weave, and invokes evaluators with the AWS SDK for
JavaScript as Langfuse does, with all of them as their registries have them now.

They are large, so they are installed below `--folder`, which the next run reuses. CI does without them: bodies and
signatures of these versions are in tests/api/dialects.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import yaml

from tests.api.dialects.conftest import LANGFUSE_SECRET
from tests.api.dialects.langfuse.conftest import ONE, PYTHON_FUNCTION, evaluation
from tests.gradebox.conftest import ROOT, Service, serving

AWS_SDK = "@aws-sdk/client-lambda@3"
PROMPTFOO = "promptfoo@0.121"
WEAVE = ("weave>=0.53", "numpy")  # numpy: the only package of weave[scorers] that RemoteScorer imports
GRADER = """
from gradebox import Score

async def grade(thread: StringThread) -> float:
    right = thread.metadata["answer"] in thread.completion()
    return Score(float(right), reason=f"looked for {thread.metadata['answer']}")
"""
NO_ANSWER = {"question": "what has no answer"}  # the grader fails


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def install(folder: Path, package: str) -> None:
    """Installs a package of npm."""
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, package], check=True)


def promptfoo(folder: Path, service: Service, work: Path) -> None:
    """Runs an eval in each way that docs/promptfoo.md shows."""
    install(folder, PROMPTFOO)
    assertion, provider = blocks("promptfoo.md", "python")
    (work / "assertion.py").write_text(assertion)
    (work / "provider.py").write_text(provider)
    (config,) = (
        yaml.safe_load(block.replace("127.0.0.1:8000", place(service))) for block in blocks("promptfoo.md", "yaml")
    )
    (row,) = config["tests"]
    wrong, failing = ({**row, "vars": {**row["vars"], "answer": "8"}}, {**row, "vars": NO_ANSWER})
    (webhook,) = row["assert"]
    python = {"type": "python", "value": "file://assertion.py"}
    for name, wanted in (("webhook", webhook), ("python", python)):
        tests = [{**one, "assert": [wanted]} for one in (row, wrong, failing)]
        results = evaluate(folder, service, work, {**config, "tests": tests})
        assert [one["success"] for one in results] == [True, False, False], results
        reasons = [one["gradingResult"]["componentResults"][0]["reason"] for one in results]
        assert reasons[:2] == ["looked for 7", "looked for 8"], reasons
        assert results[2]["score"] == 0 and ("422" in reasons[2] or "no score" in reasons[2]), reasons
        print(f"promptfoo, {name}: {reasons}")
    reads = {"type": "javascript", "value": "context.providerResponse.metadata.score >= 0.5"}
    tests = [{**one, "assert": [reads]} for one in (row, wrong, failing)]
    results = evaluate(folder, service, work, {**config, "providers": ["file://provider.py"], "tests": tests})
    told = [(one["success"], one.get("error") or "") for one in results]
    assert [success for success, _ in told] == [True, False, False]
    assert "no score" in told[2][1] and results[2]["failureReason"] == 2, results[
        2
    ]  # an error, and no failed assertion
    print(f"promptfoo, provider: {told}")


def evaluate(folder: Path, service: Service, work: Path, config: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs promptfoo and returns the results in the order of the tests."""
    (work / "promptfooconfig.yaml").write_text(yaml.safe_dump(config))
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": str(work)}
    named = {"GRADEBOX_URL": service.url, "GRADEBOX_API_KEY": service.key, "PROMPTFOO_PYTHON": sys.executable}
    command = [str(folder / "node_modules/.bin/promptfoo"), "eval", "--no-cache", "--no-write", "--no-progress-bar"]
    out = work / "out.json"
    done = subprocess.run(
        [*command, "-o", str(out)],
        cwd=work,
        env=os.environ | quiet | named,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 100), done.stdout + done.stderr  # 100: some rows failed
    results: list[dict[str, Any]] = json.loads(out.read_text())["results"]["results"]
    return sorted(results, key=lambda one: int(one["testIdx"]))


def weave(folder: Path, service: Service) -> None:
    """Makes the scorer of docs/weave.md with weave's types, and calls its URL as Weave does."""
    python = folder / "bin" / "python"
    uv = str(ROOT / ".venv" / "bin" / "uv")
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *WEAVE], check=True)
    shown, _ = blocks("weave.md", "python")
    script = shown + "\nimport weave\nprint(weave.__version__)\nprint(scorer.model_dump_json())\n"
    said = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    version, scorer = said.stdout.splitlines()[-2:]
    told = json.loads(scorer)
    url = told["endpoint_url"].replace("https://gradebox.example.com", service.url)
    call = {"inputs": {"question": "6 x 7", "answer": "42"}, "output": "It is 42.", "op_name": "op", "call_id": "c"}
    body = {"schema_version": 1, "original_call": call, "scorer": {"name": told["name"], "ref": "r"}}
    answer = httpx.post(url, json=body, headers={"Authorization": f"Bearer {service.key}"}).json()
    assert answer == {"schema_version": 1, "result": {"value": 1.0, "reason": "looked for 42"}}, answer
    print(f"weave {version}: {answer}")


def langfuse(folder: Path, service: Service) -> None:
    """Invokes the function as Langfuse does: for scores, an error of the evaluator, and refusals that are final."""
    install(folder, AWS_SDK)
    shutil.copyfile(Path(__file__).with_name("invoke.mjs"), folder / "invoke.mjs")
    raises = evaluation("def evaluate(ctx):\n    return 1 / 0")
    for slash in ("", "/"):
        scored, failed, invalid = invoke(
            folder, service, slash, LANGFUSE_SECRET, evaluation(ONE), raises, {"scope": {}}
        )
        assert scored == {"payload": {"scores": [{"name": "one", "value": 1}]}}, scored
        assert failed["payload"]["error"]["code"] == "USER_CODE_ERROR", failed
        assert (invalid["error"], invalid["attempts"]) == ("InvalidParameterValueException", 1), invalid
    (denied,) = invoke(folder, service, "", "not-the-secret-at-all", evaluation(ONE))
    assert (denied["error"], denied["attempts"]) == ("AccessDeniedException", 1), denied
    print(f"AWS SDK for JavaScript: {scored}, {failed}")


def invoke(folder: Path, service: Service, slash: str, secret: str, *bodies: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers to these bodies."""
    lines = "".join(json.dumps({"name": PYTHON_FUNCTION, "body": json.dumps(body)}) + "\n" for body in bodies)
    command = ["node", "invoke.mjs", f"{service.url}/langfuse/v1{slash}", secret]
    done = subprocess.run(command, cwd=folder, input=lines, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def place(service: Service) -> str:
    """Host and port."""
    return service.url.removeprefix("http://")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make clients")
    parser.add_argument("--folder", type=Path, default=ROOT / ".clients")
    arguments = parser.parse_args()
    with (
        TemporaryDirectory(prefix="gradebox-clients-") as data,
        serving(Path(data), "--workers", "1", langfuse_secret=LANGFUSE_SECRET) as service,
    ):
        threads = [{"completion": "7", "metadata": {"answer": "7"}}]
        service.client().graders.create.function(key="has-answer", fn=GRADER, threads=threads)
        work = Path(data) / "work"
        work.mkdir()
        promptfoo(arguments.folder / "promptfoo", service, work)
        weave(arguments.folder / "weave", service)
        langfuse(arguments.folder / "langfuse", service)
    return 0


if __name__ == "__main__":
    sys.exit(main())
