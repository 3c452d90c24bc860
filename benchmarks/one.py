"""Grades one thread: a process that is started for each completion, as kindly as can be.

`python -I -S one.py THREAD_MODULE GRADER` reads the thread from standard input. The coroutine is moved by hand, because
`import asyncio` would add 50 ms, and nothing is imported but what the grader and `json` need.
"""

import json
import runpy
import sys
from types import ModuleType

module = ModuleType("gradebox")
vars(module).update(runpy.run_path(sys.argv[1]))
sys.modules["gradebox"] = module
grade = runpy.run_path(sys.argv[2])["grade"]
value = json.loads(sys.stdin.buffer.read())
turns = [(turn["role"], turn["content"]) for turn in value["messages"]]
try:
    grade(vars(module)["StringThread"](turns, value["metadata"])).send(None)
except StopIteration as done:
    print(done.value)
