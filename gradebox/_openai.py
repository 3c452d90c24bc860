"""Adapts graders written for OpenAI (`grade(sample, item)`, sync or async) into sources that gradebox runs.

The source is handled as text and never parsed here. The adapter is appended to it and runs in the sandbox.
"""

from collections.abc import Callable
from textwrap import dedent

# Starts with an empty line and a statement, so that a source that breaks off (at a backslash, a decorator, a block)
# raises an error of its own. Contains no triple quotes, which could end a string of the source.
_ADAPTER = """
pass  # the source above ends here

_gradebox_given = globals().get("grade")
if not callable(_gradebox_given):
    raise NameError("there is no function `grade`: define `def grade(sample, item)` at the top level of the source")


def _gradebox_check():
    from inspect import signature

    try:
        signature(_gradebox_given).bind({}, {})
    except TypeError as error:
        raise TypeError(f"`grade` must take two arguments, the sample and the item: {error}") from None


_gradebox_check()


async def grade(thread: "StringThread") -> "float":
    import json

    text = thread.completion()
    if text is None:
        raise ValueError("the thread has no completion: its last turn is not the assistant's")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    calls = thread.raw_messages()[-1].get("tool_calls") or []
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    sample = {
        "choices": [{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
        "output_text": text,
        "output_json": value,
        "output_tools": calls,
        "output_audio": None,
    }
    score = _gradebox_given(sample, thread.metadata)
    return await score if hasattr(score, "__await__") else score


grade.__code__ = grade.__code__.replace(co_filename="gradebox")
"""


def openai_grader(fn: Callable[..., object] | str, packages: bool = False) -> str:
    """Return the source of a gradebox grader that calls this `grade(sample, item)`.

    `sample` holds the completion (`output_text`, `output_json`, `output_tools`, `choices`), `item` is the thread's
    metadata.

    Args:
        fn: the function or its source. A function is extracted together with the names it uses from its module.
        packages: whether the grader runs in an environment, so that it may import more than the standard library.

    Raises:
        SourceError: the function depends on something that cannot be extracted; the message explains what to change.
    """
    if isinstance(fn, str):
        source = _dedented(fn)
    else:
        from gradebox.source import extract, imports  # imported here, because the server does not need it

        source = extract(fn, plain=True, allowed=imports.may_be_package if packages else imports.nothing)
    return source + ("" if source.endswith("\n") else "\n") + _ADAPTER


def _dedented(source: str) -> str:
    """Dedents a source cut out of an indented string; an indented first line is a syntax error otherwise."""
    first = next((line for line in source.splitlines() if line.strip()), "")
    return dedent(source) if first[:1] in (" ", "\t") else source
