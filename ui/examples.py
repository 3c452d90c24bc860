"""Example graders with matching samples."""

from typing import NamedTuple


class ExampleGrader(NamedTuple):
    """An example grader. `samples` are JSON lines."""

    name: str
    title: str
    description: str
    source: str
    samples: str


_ANSWER = '''import re


async def grade(thread: StringThread) -> float:
    """1.0 where the last number of the completion is the answer."""
    numbers = re.findall(r"-?\\d+(?:\\.\\d+)?", thread.completion() or "")
    return float(bool(numbers) and numbers[-1] == str(thread.metadata.get("answer", "4")))
'''
_JSON = '''import json

from gradebox import Score


async def grade(thread: StringThread) -> float:
    """How many of the wanted keys are in the JSON object that the completion is."""
    try:
        found = json.loads(thread.completion() or "")
    except ValueError as error:
        return Score(0.0, reason=f"no JSON: {error}")
    if not isinstance(found, dict):
        return Score(0.0, reason="no object")
    wanted = thread.metadata.get("keys", ["answer"])
    missing = [key for key in wanted if key not in found]
    return Score(1 - len(missing) / len(wanted), reason=f"missing: {', '.join(missing)}" if missing else None)
'''
_LENGTH = '''async def grade(thread: StringThread) -> float:
    """1.0 for at most 50 words, and less for more."""
    words = len((thread.completion() or "").split())
    return min(1.0, 50 / max(words, 1))
'''
_SUM = '{"id": "right", "prompt": "What is 2+2?", "completion": "It is 4", "metadata": {"answer": "4"}}\n'
_WRONG_SUM = '{"id": "wrong", "prompt": "What is 2+2?", "completion": "It is 5", "metadata": {"answer": "4"}}\n'

EXAMPLES = [
    ExampleGrader(
        "has-answer", "The right answer", "Compares the last number of the completion.", _ANSWER, _SUM + _WRONG_SUM
    ),
    ExampleGrader(
        "json-keys",
        "JSON with its keys",
        "Each key adds a part of the score, with a reason.",
        _JSON,
        '{"id": "whole", "completion": "{\\"answer\\": 4}"}\n{"id": "none", "completion": "four"}\n',
    ),
    ExampleGrader("short", "Short enough", "Fewer words score higher.", _LENGTH, _SUM),
]
