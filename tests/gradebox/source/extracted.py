"""Runs an extracted source as a sandbox does: in a new interpreter with only the standard library."""

import asyncio
import importlib.util
import itertools
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import gradebox.modules
import gradebox.score
import gradebox.thread
import gradebox.thread_forms
from gradebox.errors import GraderWarning
from gradebox.source import extract
from gradebox.thread import StringThread

_GUEST = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
from gradebox import StringThread
module = types.ModuleType("__grader__")
module.StringThread = StringThread
sys.modules["__grader__"] = module
job = json.load(sys.stdin)
exec(compile(job["source"], "<grader>", "exec", dont_inherit=True), module.__dict__)
threads = [StringThread.from_object(thread) for thread in job["threads"]]
scores = []
for thread in threads:
    try:
        module.grade(thread).send(None)  # without the import of asyncio, most of the time
    except StopIteration as done:
        scores.append(float(done.value))
print("\\n" + json.dumps(scores))
"""
_numbers = itertools.count()


def load(folder: Path, text: str, name: str | None = None) -> ModuleType:
    """Imports a module with this text, as a user's program would."""
    name = name or f"user_module_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run(folder: Path, source: str, completions: list[str], metadata: dict[str, Any] | None = None) -> list[float]:
    """The scores of `source` in an interpreter with only the standard library and the modules for graders."""
    package = folder / "given" / "gradebox"
    package.mkdir(parents=True, exist_ok=True)
    for module in (gradebox.modules, gradebox.score, gradebox.thread, gradebox.thread_forms):
        shutil.copy(str(module.__file__), package)
    (package / "__init__.py").write_text(
        "from gradebox.score import Score\nfrom gradebox.thread import StringThread, StringTurn\n"
    )
    (folder / "given" / "adaptive_harmony.py").write_text("from gradebox.thread import StringThread, StringTurn\n")
    threads = [{"completion": text, "metadata": metadata} for text in completions]
    job = json.dumps({"source": source, "threads": threads})
    command = [sys.executable, "-I", "-S", "-c", _GUEST, str(folder / "given")]
    done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stderr}\n--- source\n{source}"
    scores: list[float] = json.loads(done.stdout.splitlines()[-1])
    return scores


def quiet(fn: Any, **options: Any) -> str:
    """The extracted source. Fails if there is a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraderWarning)
        return extract(fn, **options)


def same(folder: Path, fn: Any, *completions: str) -> str:
    """Asserts that the extracted source scores as the function does, without a warning. Returns the source."""
    texts = list(completions) or ["4", "a b c", ""]
    source = quiet(fn)
    expected = [float(asyncio.run(fn(StringThread([("assistant", text)])))) for text in texts]
    assert run(folder, source, texts) == expected
    return source
