import re
from contextlib import suppress
from typing import Any

import pytest

import gradebox.asks
import gradebox.modules
import validators.exception_text as explain_module
from gradebox import StringThread
from validators.candidate import FILENAME
from validators.exception_text import Explained, explain


def _raised(text: str) -> Explained:
    """The explanation of the exception that this source raises."""
    try:
        exec(compile(text, FILENAME, "exec"), {"StringThread": StringThread})
    except BaseException as error:
        return explain(error, text)
    raise AssertionError("the source raises nothing")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("\n1 / 0", "ZeroDivisionError: division by zero", 2),
        ("raise ValueError", "ValueError", 1),
        ("class E(Exception): pass\nraise E('what', 1)", "E: ('what', 1)", 2),
        ("def f():\n    1 / 0\nf()", "ZeroDivisionError: division by zero", 2),
    ],
)
def test_name_text_and_innermost_line(text: str, message: str, line: int) -> None:
    explained = _raised(text)
    assert (explained.message, explained.line) == (message, line)
    assert explained.trace.endswith(message)


def test_lines_of_the_authors_modules_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gradebox.modules.sources, "a/b.py", "def f():\n    1 / 0")
    code = compile("def f():\n    1 / 0", "a/b.py", "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)
    try:
        exec(compile("\n\nf()", FILENAME, "exec"), scope)
    except ZeroDivisionError as error:
        explained = explain(error, "\n\nf()")
    assert (explained.message, explained.line) == ("ZeroDivisionError: division by zero (a/b.py:2)", 3)
    assert '  File "a/b.py", line 2, in f\n    1 / 0\n' in explained.trace


def test_a_module_that_is_not_uploaded_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gradebox.modules.sources, "envs_of_mine/__init__.py", "")
    told = _raised("raise ModuleNotFoundError('gone', name='envs_of_mine.gsm8k')").message
    assert told.endswith("and this is found by a text: import it beside `grade`, and name it there.")


@pytest.mark.parametrize("forged", [None, 1, {1: 2}, {"a.py": 3}, {FILENAME: "other"}])
def test_forged_texts_of_modules(forged: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradebox.modules, "sources", forged)
    explained = _raised("1 / 0")
    shown = ['  File "grader.py", line 1, in <module>', "    1 / 0", explained.message]
    assert explained.trace.splitlines()[1:] == shown


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("re.match('a', 'b')", "`re` is not imported: add `import re` at the top of the source, or inside `grade`"),
        ("Score(1.0)", "name 'Score' is not defined. `Score` is not imported: add `from gradebox import Score`."),
        ("helper()", "define it inside `grade`, or upload the whole file."),
        ("import numpy_not_there", "do without this package"),
        (
            "from utils.text import extract",
            "If `utils` is a file of yours, upload what you use with `grade`: pass the function itself to the Python",
        ),
        ("StringThread([]).turns", "'turns'. A `StringThread` has the methods `completion()`, "),
        ("'4' in StringThread([]).completion", "`completion()` is a method. A `StringThread` has the methods"),
        ("StringThread([]).completion.lower()", "`completion()` is a method. A `StringThread` has the methods"),
        ("'4' in StringThread([])", "`grade` gets a thread, with the text `thread.completion()`. A `StringThread` has"),
        ("None.lower()", "If it is `thread.completion()` that is None: the thread does not end with a turn of the"),
        ("'4' in None", "If it is `thread.completion()` that is None"),
        ("{}.answer", "A dict is read by its keys, as in `thread.metadata['answer']`."),
        (
            "raise RuntimeError('asyncio.run() cannot be called from a running event loop')",
            "cannot be called from a running event loop. `grade` runs in an event loop already: write `await`, not",
        ),
        ("raise RuntimeError('This event loop is already running')", "running. `grade` runs in an event loop already"),
        ("raise MemoryError", "MemoryError: use less memory, or raise `memory_mb` of the grader."),
        (  # torch's
            "raise RuntimeError('you tried to allocate 9 bytes. Error code 12 (Cannot allocate memory)')",
            "Error code 12 (Cannot allocate memory): use less memory, or raise `memory_mb` of the grader.",
        ),
        ("open('/no/file')", "The sandbox sees no files of your machine: put the data into the source, the metadata"),
        (
            "import socket\ntry: raise socket.gaierror(-3, 'no')\nexcept OSError as e: raise OSError('no page') from e",
            "OSError: no page. The sandbox has no network: send data in the metadata or an environment",
        ),
        (
            "raise PermissionError(1, 'Operation not permitted')",
            "The sandbox refuses this call. The sandbox has no network: send data",
        ),
        ("import os\nos.environ['NO_' + 'SUCH']", "has no environment variables of yours: write the value into"),
        ("def f(): f()\nf()", "A function calls itself without an end"),
    ],
)
def test_what_to_do(text: str, hint: str) -> None:
    assert hint in _raised(text).message


def test_names_of_gradebox_in_hints_can_be_imported() -> None:
    assert all(hasattr(gradebox, name) for name in explain_module._NAMES)
    assert {*gradebox.asks.__all__} <= explain_module._NAMES


def test_members_of_a_thread_in_hints_exist() -> None:
    names = set(re.findall(r"`(\w+)(?:\(\))?`", explain_module._MEMBERS)) - {"StringThread"}
    assert len(names) == 8
    assert all(hasattr(StringThread([]), name) for name in names)


def test_the_first_exceptions_in_a_group_are_shown() -> None:
    """Of a failed `asyncio.TaskGroup`, only "1 sub-exception" was."""
    text = "raise ExceptionGroup('both', [ValueError('a' * 1000), ExceptionGroup('inner', [KeyError('b'), OSError()])])"
    cut = "a" * 300 + "…"
    expected = f"ExceptionGroup: both (2 sub-exceptions): ValueError: {cut}; KeyError: 'b'; OSError"
    assert _raised(text).message == expected
    assert _raised("raise BaseExceptionGroup('', [SystemExit(n) for n in range(9)])").message.endswith(
        "(9 sub-exceptions): SystemExit: 0; SystemExit: 1; SystemExit: 2"
    )


def test_a_group_whose_exceptions_run_code_or_are_nested_deeply_is_explained() -> None:
    class Lying(ExceptionGroup[Exception]):
        @property
        def exceptions(self) -> tuple[Exception, ...]:
            raise AssertionError

    error = Lying("x", [ValueError("y")])
    assert explain(error, "").message == "Lying: x (1 sub-exception): ValueError: y"
    deep: Exception = ValueError("y")
    for _ in range(5000):
        deep = ExceptionGroup("x", [deep])
    assert explain(deep, "").message == "ExceptionGroup: x (1 sub-exception): ValueError: y"


def test_of_a_long_recursion_the_two_ends_are_shown() -> None:
    trace = _raised("def f(n):\n    if n == 0:\n        1 / 0\n    f(n - 1)\nf(300)").trace
    assert "in <module>\n    f(300)" in trace
    assert "line 3, in f\n    1 / 0" in trace
    assert "… 282 more frames …" in trace
    assert len(trace.splitlines()) < 50


def test_frames_of_ours_are_not_shown() -> None:
    try:
        int("x")
    except ValueError as error:
        explained = explain(error, "")
    assert explained == ("ValueError: invalid literal for int() with base 10: 'x'", 0, "", "")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    def __str__(self): raise KeyError('no')", "its message could not be read: KeyError"),
        ("    def __str__(self): return self.__str__()", "its message could not be read: RecursionError"),
        ("    def __str__(self): return 1", "its message could not be read: TypeError"),
        ("    def __str__(self): return 'x' * 10**7", "x" * 4096 + "…"),
        ("    def __repr__(self): 1 / 0\n    __class__ = property(__repr__)", "E"),
    ],
)
def test_a_hostile_exception(body: str, message: str) -> None:
    explained = _raised(f"class E(Exception):\n{body}\nraise E")
    assert message in explained.message
    assert len(explained.message) < 4200
    assert explained.line > 0


@pytest.mark.parametrize(
    "source",
    [
        "class S(str):\n    def __len__(self): 1 / 0\nclass E(Exception):\n    def __str__(self): return S()\nraise E",
        "class E(Exception):\n    __traceback__ = property(lambda self: 1 / 0)\nraise E",
        "class M(type):\n    __name__ = property(lambda self: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E",
        "class S(str): startswith = None\ndef f(): pass\nf.__qualname__ = S('x')\nf.nothing",
        "import os\nclass S(str):\n    __hash__ = str.__hash__\n    def __eq__(self, other): 1 / 0\n"
        "os.environ[S('NO KEY')]",
        "class S(str):\n    def __hash__(self): 1 / 0\ndef f(): raise ValueError\n"
        "f.__code__ = f.__code__.replace(co_filename=S('a'))\nf()",
    ],
    ids=[
        "a message with a length of its own",
        "a traceback of its own",
        "a name of its own",
        "an object of its own",
        "a key of its own",
        "a file's name of its own",
    ],
)
def test_an_exception_that_fights_back(source: str) -> None:
    explained = None
    with suppress(ZeroDivisionError):  # pytest cannot show this error: its context is hostile
        explained = _raised(source)
    assert explained is not None


def test_a_line_that_lies_outside_of_the_source_is_not_quoted() -> None:
    code = compile("\n" * 50 + "1 / 0", FILENAME, "exec")
    try:
        exec(code)
    except ZeroDivisionError as error:
        explained = explain(error, "one line")
    assert explained.line == 51
    assert "one line" not in explained.trace


def test_causes_are_shown_as_python_shows_them() -> None:
    explained = _raised("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('no a') from e")
    assert explained.message == "ValueError: no a"
    assert explained.line == 4
    assert explained.cause == ", caused by KeyError: 'a' (line 2)"
    assert explained.trace == (
        "Traceback (most recent call last):\n  File \"grader.py\", line 2, in <module>\n    {}['a']\nKeyError: 'a'\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "grader.py", line 4, in <module>\n'
        "    raise ValueError('no a') from e\nValueError: no a"
    )


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        ("raise ValueError", ", raised while handling KeyError: 'a' (line 2)"),
        ("raise ValueError from None", ""),
        ("raise ValueError from OSError('x')", ", caused by OSError: x"),
    ],
)
def test_the_context_is_shown_unless_it_is_suppressed(raised: str, cause: str) -> None:
    explained = _raised(f"try:\n    {{}}['a']\nexcept KeyError as e:\n    {raised}")
    assert explained.cause == cause
    assert explained.trace.count("Traceback") == (2 if "while" in cause else 1)


@pytest.mark.parametrize(
    "source",
    [
        "e = ValueError('x')\ne.__cause__ = e\nraise e",
        "e, f = ValueError('x'), KeyError('y')\ne.__cause__, f.__context__ = f, e\nraise e",
        "class E(Exception):\n    __cause__ = property(lambda self: 1 / 0)\n    __context__ = __cause__\n"
        "    __suppress_context__ = __cause__\nraise E from E('x')",
        "class E(Exception):\n    def __str__(self): return self.__str__()\nraise ValueError from E",
        "class E(Exception):\n    def __str__(self): return 'x' * 10**7\nraise ValueError from E",
    ],
)
def test_a_hostile_cause(source: str) -> None:
    explained = _raised(source)
    assert explained.trace.count("Traceback") == 1
    assert len(explained.cause) < 400


def test_of_many_causes_both_ends_are_shown() -> None:
    error: BaseException = ValueError("first")
    for number in range(3000):
        error, cause = ValueError(str(number)), error
        error.__cause__ = cause
    lines = explain(error, "").trace.splitlines()
    assert [line for line in lines if line.startswith(("ValueError", "…"))] == [
        "ValueError: 1999",
        "ValueError: 2000",
        "… 996 more exceptions …",
        "ValueError: 2997",
        "ValueError: 2998",
        "ValueError: 2999",
    ]


def test_causes_that_leave_no_room_for_the_exception_itself_are_left_out() -> None:
    source = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e"
    try:
        exec(compile(source, FILENAME, "exec"))
    except ValueError as error:
        assert len(explain(error, source, 200).trace.encode()) <= 200
        assert explain(error, source, 200).trace.endswith("ValueError: x")


def test_a_group_as_a_cause() -> None:
    source = "raise ValueError('x') from ExceptionGroup('both', [KeyError('b')])"
    assert _raised(source).cause == ", caused by ExceptionGroup: both (1 sub-exception): KeyError: 'b'"


def test_missing_data_of_nltk_is_to_be_sent() -> None:
    missing = "raise LookupError({!r})"
    explained = _raised(missing.format("Resource 'wordnet' not found.\n>>> nltk.download('wordnet')\n****"))
    assert explained.message.endswith("`gradebox environments update NAME --data nltk_data`.")
    assert _raised(missing.format("no such key")).message == "LookupError: no such key"
