"""Checks which functions can become graders, with an error message for each other case."""

import functools
import inspect
from types import BuiltinFunctionType, FunctionType, MethodType

from gradebox.errors import SourceError

_METHOD = "{} is a method, and its class would stay behind: write an `async def` at module level that calls it"


def original(fn: object, plain: bool) -> FunctionType:
    """The `async def` at module level that `fn` is, or that its decorators wrap. With `plain`, a `def` is accepted too.

    Raises:
        SourceError: `fn` cannot stand alone.
    """
    function = _unwrap(fn)
    name = function.__name__
    if name == "<lambda>":
        raise SourceError("a lambda cannot be uploaded: write `async def grade(thread): ...` at module level")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise SourceError(f"{name} is a generator, because it uses `yield`: a grader is an `async def` that returns")
    _refuse_nested(function)
    if not plain and not inspect.iscoroutinefunction(function):
        raise SourceError(_why_not_plain(function))
    return function


def _why_not_plain(function: FunctionType) -> str:
    """What to change in a plain `def`, also in its parameters, which the service would refuse next."""
    name, parameters = function.__name__, inspect.signature(function).parameters
    names = [str(one.replace(annotation=one.empty, default=one.empty)) for one in parameters.values()]
    if names[:2] == ["sample", "item"]:
        return (
            f"{name} takes the sample and the item, as OpenAI's graders do: create it by "
            f"client.graders.create.python(fn={name}, …), or pass gradebox.openai_grader({name}) to other methods"
        )
    if len(names) == 1 and function.__code__.co_argcount == 1:
        return f"{name} is a plain `def`: write `async def {name}` (nothing else in it needs to change)"
    has = f"the parameters {', '.join(names):.200}" if names else "no parameter"
    write = "keep it, and write" if names else "write"
    does = "calls it with" if names else "reads"
    own = "score" if names and name == "grade" else "grade"
    return (
        f"{name} has {has}, and a grader takes one, the thread: {write} "
        f"`async def {own}(thread: StringThread) -> float`, which {does} thread.completion(), and what varies by "
        "sample from thread.metadata"
    )


def _unwrap(fn: object) -> FunctionType:
    if isinstance(fn, staticmethod | classmethod | MethodType):
        raise SourceError(_METHOD.format(_name(fn)))
    if isinstance(fn, functools.partial):
        raise SourceError(
            f"a functools.partial of {_name(fn.func)} cannot be uploaded: "
            "write an `async def` at module level that calls it with those arguments"
        )
    if isinstance(fn, type):
        raise SourceError(f"{fn.__name__} is a class: write an `async def` at module level that uses it")
    if isinstance(fn, BuiltinFunctionType):
        raise SourceError(f"{fn.__name__} is written in C and has no Python source: write an `async def` that calls it")
    if not callable(fn):
        raise SourceError(f"a grader is a function or its source as a string, and this is {type(fn).__name__}")
    try:
        function = inspect.unwrap(fn)
    except ValueError as error:
        raise SourceError(f"the decorators of {_name(fn)} wrap each other in a circle: {error}") from None
    if isinstance(function, FunctionType):
        return function
    if function is not fn:
        return _unwrap(function)
    raise SourceError(
        f"an object of class {type(fn).__name__} cannot be uploaded, callable or not: "
        "write an `async def` at module level that calls it"
    )


def _refuse_nested(function: FunctionType) -> None:
    owner, dot, name = function.__qualname__.rpartition(".")
    if not dot and not function.__code__.co_freevars:
        return
    if not owner.endswith("<locals>") and dot:
        raise SourceError(_METHOD.format(function.__qualname__))
    outer = owner.removesuffix(".<locals>") or "another function"
    captured = ", ".join(function.__code__.co_freevars)
    what = f"is a closure over {captured}" if captured else "is a nested function"
    raise SourceError(
        f"{name} {what}, defined inside {outer}, and only functions at module level can be uploaded: "
        "move it there, with what it needs as constants of the module. "
        "If a decorator made it, let the decorator use functools.wraps"
    )


def _name(fn: object) -> str:
    return str(getattr(fn, "__qualname__", None) or type(fn).__name__)
