"""Formats a grader's exception for its author: only frames of the grader, and a hint at the remedy."""

import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import FunctionType, TracebackType
from typing import Any, NamedTuple

from validators.candidate import FILENAME, TEXT_BYTES

# Descriptors of the base classes, so that overrides in a class of the grader are not executed.
_NAME: Any = type.__dict__["__name__"]
_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
_CAUSE: Any = BaseException.__dict__["__cause__"]
_CONTEXT: Any = BaseException.__dict__["__context__"]
_SUPPRESS_CONTEXT: Any = BaseException.__dict__["__suppress_context__"]
_EXCEPTIONS: Any = BaseExceptionGroup.__dict__["exceptions"]
_NAMES = frozenset(  # what graders import from gradebox. `StringThread` is there without an import
    ("Endpoint", "Grader", "Model", "ModelError", "NotApplicable", "Reply", "Score", "StringTurn", "Verdict", "once")
)
_MEMBERS = (
    "A `StringThread` has the methods `completion()`, `last_content()`, `messages()`, `get_turns()` and "
    "`raw_messages()`, and `metadata`, `tool_calls` and `steps`."
)
_METHOD = f". A method is used without a call: `completion()` is a method. {_MEMBERS}"
_NONE = ". If it is `thread.completion()` that is None: the thread does not end with a turn of the assistant."
_NO_NETWORK = (
    ". The sandbox has no network: send data in the metadata or an environment, and ask models and endpoints that are "
    "registered."
)
_READ_VARIABLE = type(os.environ).__getitem__.__code__
_MOST_FRAMES = 20
_MOST_LINE = 200
_MOST_INSIDE = 3  # exceptions of a group that are shown
_MOST_TEXT_INSIDE = 300
_NOT_ITS_OWN = 3  # processes that the limit counts too, as `sandbox.limits.OWN_PROCESSES`
_MOST_CAUSES = 1000  # that are looked at
_MOST_CAUSES_SHOWN = 4
_CAUSED = "The above exception was the direct cause of the following exception:"
_HANDLED = "During handling of the above exception, another exception occurred:"


class Explained(NamedTuple):
    """A formatted exception. `line` is that of the grader's source, 0 if no frame belongs to it. `cause` continues the
    message, after its line, with the exception that it was raised from or while handling.
    """

    message: str
    line: int
    trace: str
    cause: str = ""


class _Frame(NamedTuple):
    filename: str
    line: int
    function: str


def explain(error: BaseException, text: str, most_bytes: int = TEXT_BYTES) -> Explained:
    """Of a message, `most_bytes` characters are shown. Causes are shown in the trace as far as it stays within
    `most_bytes`.

    Never raises: `error.__str__` may be hostile, so call this only in a sandbox.
    """
    texts = _texts(text)
    frames = _frames(error, texts)
    headline = _headline(error, most_bytes)
    causes = _causes(error)
    trace = _trace(frames, headline, texts) or (headline if causes else "")
    trace = _with_causes(trace, causes, texts, most_bytes)
    hint = _hint(error) or _of_name_resolution([error, *(cause for cause, _ in causes)])
    message = headline + hint + _own_place(frames)
    return Explained(message, _line(frames), trace, _first_cause(causes, texts))


def name_of(kind: type) -> str:
    """The name of a class, read past a metaclass that overrides `__name__`."""
    name: str = _NAME.__get__(kind)
    return name[:200]


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group and in the groups in it; the exception itself if it is no group."""
    left = [error]
    while left:
        each = left.pop()
        if issubclass(type(each), BaseExceptionGroup):
            left.extend(reversed(_EXCEPTIONS.__get__(each)))
        else:
            yield each


def _causes(error: BaseException) -> list[tuple[BaseException, str]]:
    """What led to an exception, the nearest first, each with the words that stand between it and the next one."""
    found: list[tuple[BaseException, str]] = []
    seen = {id(error)}
    while len(found) < _MOST_CAUSES:
        cause, words = _CAUSE.__get__(error), _CAUSED
        if cause is None and not _SUPPRESS_CONTEXT.__get__(error):
            cause, words = _CONTEXT.__get__(error), _HANDLED
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        found.append((cause, words))
        error = cause
    return found


def _first_cause(causes: list[tuple[BaseException, str]], texts: Mapping[str, str]) -> str:
    if not causes:
        return ""
    cause, words = causes[0]
    frames = _frames(cause, texts)
    where = f" (line {line})" if (line := _line(frames)) else ""
    how = "caused by" if words is _CAUSED else "raised while handling"
    return f", {how} {_headline(cause, _MOST_TEXT_INSIDE)}{_own_place(frames)}{where}"


def _with_causes(trace: str, causes: list[tuple[BaseException, str]], texts: Mapping[str, str], most_bytes: int) -> str:
    """A traceback after those of its causes, as Python shows them: as many of the nearest as there is room for."""
    if len(causes) > _MOST_CAUSES_SHOWN:
        half = _MOST_CAUSES_SHOWN // 2
        first, words = causes[-half]
        left_out = f"{words}\n\n… {len(causes) - _MOST_CAUSES_SHOWN} more exceptions …"
        causes = [*causes[:half], (first, left_out), *causes[len(causes) - half + 1 :]]
    for cause, words in causes:
        headline = _headline(cause, _MOST_TEXT_INSIDE)
        shown = _trace(_frames(cause, texts), headline, texts) or headline
        longer = f"{shown}\n\n{words}\n\n{trace}"
        if len(longer.encode("utf-8", "backslashreplace")) > most_bytes:
            break
        trace = longer
    return trace


def _headline(error: BaseException, most: int) -> str:
    """The name and the message; of a group also those of the first exceptions in it."""
    first = _name_and_text(error, most)
    if not issubclass(type(error), BaseExceptionGroup):
        return first
    inside = [_name_and_text(each, _MOST_TEXT_INSIDE) for each in islice(leaves(error), _MOST_INSIDE)]
    return f"{first}: {'; '.join(inside)}"


def _name_and_text(error: BaseException, most: int) -> str:
    return f"{name_of(type(error))}: {_text_of(error, most)}".rstrip(": ")


def _text_of(error: BaseException, most: int) -> str:
    try:
        # A subclass of str may override methods; this slice is a plain str.
        text = str.__getitem__(str(error), slice(0, most + 1))
    except BaseException as problem:  # noqa: BLE001  # hostile code may raise anything
        return f"(its message could not be read: {name_of(type(problem))})"
    return text if len(text) <= most else text[:most] + "…"


def _texts(text: str) -> Mapping[str, str]:
    """The source `text`, and the modules of the author that it added, by the names of their files."""
    added = getattr(sys.modules.get("gradebox.modules"), "sources", None)
    own = {path: each for path, each in added.items() if type(each) is str} if type(added) is dict else {}
    return {**own, FILENAME: text}


def _frames(error: BaseException, texts: Mapping[str, str]) -> list[_Frame]:
    """The frames of the grader and of its author's modules, outermost first, without the middle of a long recursion."""
    frames: list[_Frame] = []
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    while trace is not None:
        code = trace.tb_frame.f_code
        if type(code.co_filename) is str and code.co_filename in texts:
            frames.append(_Frame(code.co_filename, trace.tb_lineno or 0, code.co_name))
        trace = trace.tb_next
    if len(frames) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        left_out = _Frame("", 0, f"… {len(frames) - _MOST_FRAMES} more frames …")
        frames = [*frames[:half], left_out, *frames[-half:]]
    return frames


def _line(frames: list[_Frame]) -> int:
    return next((frame.line for frame in reversed(frames) if frame.filename == FILENAME), 0)


def _own_place(frames: list[_Frame]) -> str:
    """The line that raised, if it is one of a module of the author."""
    if not frames or frames[-1].filename == FILENAME:
        return ""
    return f" ({frames[-1].filename[:100]}:{frames[-1].line})"


def _trace(frames: list[_Frame], headline: str, texts: Mapping[str, str]) -> str:
    if not frames:
        return ""
    lines = {filename: texts[filename].splitlines() for filename in {each.filename for each in frames if each.line}}
    shown = ["Traceback (most recent call last):"]
    for filename, number, function in frames:
        shown.append(f'  File "{filename}", line {number}, in {function[:100]}' if number else f"  {function}")
        if 0 < number <= len(lines[filename]):
            shown.append(f"    {lines[filename][number - 1].strip()[:_MOST_LINE]}")
    return "\n".join([*shown, headline])


def _hint(error: BaseException) -> str:
    """What to do, or "". Types are compared by identity, since a metaclass of the grader may override `==`."""
    return next((hint(error) for kind, hint in _HINTS if type(error) is kind), "")


def _of_name(error: Any) -> str:
    name = error.name
    if type(name) is not str:
        return ""
    if name in _NAMES:
        return f". `{name}` is not imported: add `from gradebox import {name}`."
    if name in sys.stdlib_module_names:
        return (
            f". `{name}` is not imported: add `import {name}` at the top of the source, or inside `grade` if the "
            "function alone is uploaded."
        )
    return ". What `grade` uses must be in the uploaded source: define it inside `grade`, or upload the whole file."


def _of_module(error: Any) -> str:
    own = ""
    if type(error.name) is str:
        top = error.name.partition(".")[0][:100]
        if any(type(path) is str and path.startswith(f"{top}/") for path in _texts("")):
            return (
                f". Of your package `{top}`, only what the code names is uploaded, and this is found by a text: import "
                "it beside `grade`, and name it there."
            )
        own = (
            f" If `{top}` is a file of yours, upload what you use with "
            "`grade`: pass the function itself to the Python client, or its name by `--function` in the shell."
        )
    return (
        ". A grader has the standard library, `StringThread`, and the packages of its environment, if it has one: "
        "do without this package, or name an environment that has it (`gradebox environments create`; for `gradebox "
        f"run`, `--package`).{own}"
    )


def _of_attribute(error: Any) -> str:
    if error.obj is None:
        return _NONE
    if type(error.obj) is dict and type(error.name) is str:
        return f". A dict is read by its keys, as in `thread.metadata[{error.name[:100]!r}]`."
    if type(error.obj) is FunctionType and str.startswith(error.obj.__qualname__, "StringThread."):
        return _METHOD
    return f". {_MEMBERS}" if name_of(type(error.obj)) == "StringThread" else ""


def _of_type(error: BaseException) -> str:
    text = _text_of(error, _MOST_LINE)
    if "'method'" in text:
        return _METHOD
    if "NoneType" in text:
        return _NONE
    return f". `grade` gets a thread, with the text `thread.completion()`. {_MEMBERS}" if "StringThread" in text else ""


def _of_memory(_: BaseException) -> str:
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    most = "" if limit == resource.RLIM_INFINITY else f"more than {limit >> 20} MiB: "
    return f": {most}use less memory, or raise `memory_mb` of the grader."


def _of_key(error: BaseException) -> str:
    """A hint if `os.environ` raised the error."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code is not _READ_VARIABLE:
        return ""
    name = error.args[0] if error.args else None
    if type(name) is str and name == "ENVIRONMENT_DATA":
        return ". The grader has no environment with data: name one when it is created (`--environment NAME`)."
    return ". The sandbox has no environment variables of yours: write the value into the source or the metadata."


def _of_file(_: BaseException) -> str:
    return ". The sandbox sees no files of your machine: put the data into the source, the metadata or an environment."


def _of_name_resolution(errors: list[BaseException]) -> str:
    """A hint if a host's name was looked up: libraries raise errors of their own from the one of `socket`."""
    return _NO_NETWORK if any(name_of(type(error)) == "gaierror" for error in errors) else ""


def _of_permission(error: BaseException) -> str:
    is_refused = _text_of(error, _MOST_LINE).startswith("[Errno 1] ")
    return f". The sandbox refuses this call{_NO_NETWORK}" if is_refused else ""


def _of_lookup(error: BaseException) -> str:
    if "nltk.download(" not in _text_of(error, TEXT_BYTES):
        return ""
    return (
        "\nThe sandbox has no network: call `nltk.download(…, download_dir='nltk_data')` on your machine, and send "
        "that folder as data of the environment: `gradebox environments update NAME --data nltk_data`."
    )


def _of_recursion(_: BaseException) -> str:
    return ". A function calls itself without an end, or the data is nested too deeply."


def _of_run(error: BaseException) -> str:
    text = _text_of(error, _MOST_LINE)
    if text.endswith(("called from a running event loop", "loop is already running", "another loop is running")):
        return ". `grade` runs in an event loop already: write `await`, not `asyncio.run` or `run_until_complete`."
    if "(Cannot allocate memory)" in text:  # torch raises no MemoryError
        return _of_memory(error)
    return _of_processes(error) if text == "can't start new thread" else ""


def _of_processes(_: BaseException) -> str:
    most = max(0, resource.getrlimit(resource.RLIMIT_NPROC)[0] - _NOT_ITS_OWN)
    return (
        f". A grader has at most {most} processes and threads, and a thread's stack counts as memory: make smaller "
        "pools."
    )


_HINTS: tuple[tuple[type, Callable[[BaseException], str]], ...] = (
    (NameError, _of_name),
    (ModuleNotFoundError, _of_module),
    (AttributeError, _of_attribute),
    (TypeError, _of_type),
    (MemoryError, _of_memory),
    (KeyError, _of_key),
    (FileNotFoundError, _of_file),
    (PermissionError, _of_permission),
    (LookupError, _of_lookup),
    (RecursionError, _of_recursion),
    (RuntimeError, _of_run),
    (BlockingIOError, _of_processes),
)
