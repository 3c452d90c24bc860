import asyncio
import json
import re
from collections import Counter
from importlib import import_module

from examples.make_completions import COUNTS, ENDLESS_PATTERN, PATH, samples
from gradebox import StringThread

LINES = PATH.read_bytes().splitlines()


def test_the_file_is_what_its_script_makes() -> None:
    assert [json.loads(line) for line in LINES] == samples()


def test_each_line_is_a_thread_with_metadata_for_every_grader() -> None:
    assert len(LINES) == sum(COUNTS.values()) == 300
    assert PATH.stat().st_size < 400_000
    for line in LINES:
        sample, thread = json.loads(line), StringThread.from_json(line)
        assert set(sample) == {"id", "messages", "metadata"}
        assert thread.completion() is not None
        assert set(thread.metadata) == {"task", "answer", "pattern", "required", "keywords", "tests"}
        re.compile(thread.metadata["pattern"])
    assert len({json.loads(line)["id"] for line in LINES}) == 300


def test_completions_are_varied() -> None:
    texts = [StringThread.from_json(line).completion() or "" for line in LINES]
    assert sum(not text for text in texts) > 5
    assert sum(len(text) > 3000 for text in texts) >= 3
    assert sum(not text.isascii() for text in texts) > 12
    assert sum("while True" in text for text in texts) == 1
    assert sum("create_connection" in text for text in texts) == 1
    assert Counter(texts).most_common(1)[0][0] == "", "no other completion is repeated as often"


def test_every_grader_has_something_to_tell_apart() -> None:
    threads = [StringThread.from_json(line) for line in LINES]
    quick = [thread for thread in threads if thread.metadata["pattern"] != ENDLESS_PATTERN]
    assert len(quick) == len(threads) - 1, "one sample has a pattern that takes for ever"
    for name in ("exact_match", "regex_match", "json_shape", "keywords", "gsm8k_answer"):
        grade = import_module(f"examples.graders.{name}").grade
        scores = [float(asyncio.run(grade(thread))) for thread in quick]
        assert 0.1 < sum(scores) / len(scores) < 0.9, name
