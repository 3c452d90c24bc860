"""Grading without gradebox. `python -m benchmarks.bare GRADER FILE` prints the seconds that it took.

Reads the file, parses each line, builds a thread and awaits `grade`, all in one event loop of a new process. Does not
count the start of the interpreter and the loading of the grader.
"""

import asyncio
import gc
import json
import runpy
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import threads
from gradebox.thread import StringThread

Grade = Callable[[StringThread], Awaitable[float]]


def load(grader: str) -> Grade:
    """The `grade` function of a grader."""
    grade: Grade = runpy.run_path(str(threads.FOLDER / f"{grader}.py"))["grade"]
    return grade


def to_thread(value: dict[str, Any]) -> StringThread:
    """The thread of a parsed line."""
    return StringThread([(turn["role"], turn["content"]) for turn in value["messages"]], value["metadata"])


async def score(grade: Grade, path: Path) -> list[float]:
    """The score of each line."""
    with path.open("rb") as file:
        return [await grade(to_thread(json.loads(line))) for line in file]


def main() -> None:
    """Prints the seconds."""
    grader, file = sys.argv[1:]
    grade = load(grader)
    gc.collect()
    started = perf_counter()
    asyncio.run(score(grade, Path(file)))
    print(perf_counter() - started)


if __name__ == "__main__":
    main()
