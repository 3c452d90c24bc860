"""Grades each line of standard input: what is started for each completion, or for a batch of them.

`python -I -S lines.py THREAD_MODULE … GRADER` is as quick as such a program can be: the coroutine is moved by hand, as
importing asyncio takes 50 ms, and nothing is imported but what the grader and `json` need. What the first module
imports of gradebox lies beside it.
"""

import json
import runpy
import sys
from types import ModuleType

module = ModuleType("gradebox")
module.__path__ = [sys.argv[1].rpartition("/")[0]]
sys.modules["gradebox"] = module
vars(module).update(runpy.run_path(sys.argv[1]))
grade = runpy.run_path(sys.argv[-1])["grade"]
for line in sys.stdin.buffer:
    value = json.loads(line)
    turns = [(turn["role"], turn["content"]) for turn in value["messages"]]
    try:
        grade(vars(module)["StringThread"](turns, value["metadata"])).send(None)
    except StopIteration as done:
        print(done.value)
