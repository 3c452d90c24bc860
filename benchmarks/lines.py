"""Grades each line of standard input. Alternatives to gradebox start it for each completion, or for a batch of them.

`python -I -S lines.py THREAD_MODULE … GRADER` is as fast as such a program can be: it runs the coroutine without
asyncio, whose import takes 50 ms, and imports only what the grader and `json` need. The modules of gradebox that the
first module imports are in the same folder.
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
