"""The share of tests that the completion's Python code passes.

Metadata: `tests`, a list of `{"call": "add(2, 3)", "expect": 5}`; `expect` is any JSON value.

The code runs in a separate process, which receives the calls but not the expected values; this process compares the
answers. So code that exits early, prints "all tests passed" or replaces `==` gives no answer.
"""

import json
import re
import subprocess
import tempfile

from gradebox import Score, StringThread

CODE_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
TIMEOUT_S = 2.0
MAX_ANSWER_BYTES = 64 * 1024

# Writes one answer per line to its original stdout, a file; output of the code is discarded.
RUNNER = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
job = json.load(sys.stdin)
namespace = {"__name__": "completion"}
exec(job["code"], namespace)
for call in job["calls"]:
    try:
        answer = {"value": eval(call, namespace)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:200]}
    print(json.dumps(answer), file=answers, flush=True)
"""


def run(code: str, calls: list[str]) -> tuple[list[dict[str, object]], str]:
    """The answers of the calls, up to where the process ended, and how it ended."""
    job = json.dumps({"code": code, "calls": calls})
    command = ["python3", "-sP", "-c", RUNNER]
    with tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                command, input=job.encode(), stdout=answers, stderr=errors, timeout=TIMEOUT_S, check=False
            )
            ending = f"the code ended with status {done.returncode}"
        except subprocess.TimeoutExpired:
            ending = f"the code took longer than {TIMEOUT_S:g} s"
        errors.seek(max(0, errors.tell() - 300))
        lines = errors.read().decode(errors="replace").split("\n")
        answers.seek(0)
        return read_answers(answers.read(MAX_ANSWER_BYTES)), " ".join([ending, *lines[-2:]]).strip()


def read_answers(lines: bytes) -> list[dict[str, object]]:
    """The answers up to the first invalid line; the process may have written anything."""
    answers = []
    for line in lines.splitlines():
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            break
        answers.append(answer if isinstance(answer, dict) else {"error": "it wrote into the answers"})
    return answers


def same(answer: object, expected: object) -> bool:
    """Equal as JSON: 1 is 1.0, and is not true."""
    return answer == expected and isinstance(answer, bool) == isinstance(expected, bool)


async def grade(thread: StringThread) -> float:
    """From 0.0 to 1.0; the reason shows the first test that fails, or how the code ended."""
    blocks = CODE_BLOCK.findall(thread.completion() or "")
    if not blocks:
        return Score(0.0, reason="there is no code block in the completion")
    tests = thread.metadata["tests"]
    answers, ending = run("\n".join(blocks), [test["call"] for test in tests])
    if len(answers) < len(tests):
        return Score(0.0, reason=f"only {len(answers)} of {len(tests)} calls were answered: {ending}")
    failed = [
        f"{test['call']} gave {answer.get('value', answer.get('error'))!r:.100}, not {test['expect']!r:.100}"
        for test, answer in zip(tests, answers, strict=False)
        if "value" not in answer or not same(answer["value"], test["expect"])
    ]
    return Score(1 - len(failed) / len(tests), reason=failed[0] if failed else "all tests pass")
