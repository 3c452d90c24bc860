"""Langfuse's code evaluators: what an `evaluate(ctx)` is given and returns, and how one grades.

The names and members are those that Langfuse's own executor gives to Python evaluators (docs/langfuse.md). Evaluators
see this module inside the sandbox, so it imports nothing but the standard library.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import ModuleType, TracebackType
from typing import Any, Literal

from gradebox import score
from gradebox.thread import StringThread

RESULT_BYTES = 256 * 1024  # of all scores together, as JSON
ErrorCode = Literal["INVALID_SOURCE", "USER_CODE_ERROR", "INVALID_RESULT", "RESULT_TOO_LARGE"]

_MODULE, _FILE = "evaluator", "evaluator.py"
_MESSAGE_CHARACTERS = 4000
_MEMBERS = {"data_type": "dataType", "config_id": "configId"}  # as they are on the wire
_ON_THE_WIRE = ("name", "value", "dataType", "comment", "configId", "metadata")


class ToolCall:
    """A call of a tool in the observation."""

    def __init__(self, id: str, name: str, arguments: str, type: str, index: int) -> None:  # noqa: A002  # Langfuse's
        self.id = id
        self.name = name
        self.arguments = arguments
        self.type = type
        self.index = index


class Observation:
    """What is evaluated. Each member is any JSON value: Langfuse parses texts that are JSON."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        """Reads the member `observation` of a payload."""
        self.input = payload.get("input")
        self.output = payload.get("output")
        self.metadata = payload.get("metadata")
        members = ("id", "name", "arguments", "type", "index")
        self.tool_calls = [
            ToolCall(*(call.get(member) for member in members)) for call in payload.get("toolCalls") or ()
        ]


class Experiment:
    """The item of the experiment that the observation belongs to."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        """Reads the member `experiment` of a payload."""
        self.item_expected_output = payload.get("itemExpectedOutput")
        self.item_metadata = payload.get("itemMetadata")


class EvaluationContext:
    """What `evaluate` is given. `experiment` is None outside experiments."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        """Reads a payload."""
        self.observation = Observation(payload.get("observation") or {})
        experiment = payload.get("experiment")
        self.experiment = None if experiment is None else Experiment(experiment)


class Score:
    """One score. Members that are None are left out."""

    def __init__(
        self,
        value: Any,
        name: str,
        data_type: str | None = None,
        comment: str | None = None,
        config_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.value = value
        self.name = name
        self.data_type = data_type
        self.comment = comment
        self.config_id = config_id
        self.metadata = metadata


class EvaluationResult:
    """What `evaluate` returns."""

    def __init__(self, scores: Sequence[Score]) -> None:
        self.scores = scores


class Unfit(Exception):
    """What `evaluate` returned cannot be sent. The message says what to change."""


class Evaluator:
    """A source with `evaluate(ctx)`, loaded. As a grader it gives a score that means nothing: what `evaluate` came to
    stands in its details, as `scores`, or as an `error` with `code` and `message`.
    """

    def __init__(self, source: str) -> None:
        """Runs the source. What it raises is the answer for each thread."""
        self._evaluate: Callable[[EvaluationContext], Any] | None = None
        self._fault = ""
        if "asyncio" in source:
            import asyncio  # noqa: F401  # here, before the processes that evaluate are forked
            import concurrent.futures.thread  # noqa: F401
        module = ModuleType(_MODULE)
        module.__file__ = _FILE
        for given in (EvaluationContext, EvaluationResult, Score, ToolCall):
            module.__dict__[given.__name__] = given
        sys.modules[_MODULE] = module  # dataclasses import it by its name
        try:
            exec(compile(source, _FILE, "exec", dont_inherit=True), module.__dict__)  # noqa: S102  # in a sandbox
        except BaseException as error:  # noqa: BLE001  # whatever a source raises is its author's to read
            self._fault = _told(error)
            return
        evaluate = module.__dict__.get("evaluate")
        if callable(evaluate):
            self._evaluate = evaluate
        elif evaluate is None:
            self._fault = "NameError: there is no `evaluate`: define `def evaluate(ctx)` at the top level of the source"
        else:
            self._fault = f"TypeError: `evaluate` is {_named(evaluate)}, and must be a function: `def evaluate(ctx)`"

    def __call__(self, thread: StringThread) -> score.Score:
        """Evaluates the payload that the thread has as its metadata."""
        return score.Score(0.0, details=self.answer(thread.metadata))

    def answer(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """What `evaluate` comes to for a payload, as it is sent to Langfuse."""
        if self._evaluate is None:
            return error_of("INVALID_SOURCE", self._fault)
        try:
            answer = {"scores": _scores(_run(self._evaluate, EvaluationContext(payload)))}
        except Unfit as unfit:
            return error_of("INVALID_RESULT", str(unfit))
        except BaseException as error:  # noqa: BLE001  # whatever an evaluator raises is its author's to read
            return error_of("USER_CODE_ERROR", _told(error))
        if (size := _size(answer)) > RESULT_BYTES:
            return error_of("RESULT_TOO_LARGE", f"the scores take {size} bytes as JSON, and may take {RESULT_BYTES}")
        return answer


def error_of(code: ErrorCode, message: str) -> dict[str, Any]:
    """An error as it is sent."""
    return {"error": {"code": code, "message": message}}


def _run(evaluate: Callable[[EvaluationContext], Any], context: EvaluationContext) -> Any:
    """What `evaluate` returns, plain or async. Where asyncio is loaded, this process grades in an event loop: a thread
    has none, so that a plain `evaluate` may start its own.
    """
    if "asyncio" in sys.modules:
        from concurrent.futures.thread import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_run_in_loop, evaluate, context).result()
    result = evaluate(context)
    if not hasattr(result, "__await__"):
        return result
    try:
        next(result.__await__())  # a coroutine that waits for nothing needs no loop, which takes long to load
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("`evaluate` awaits what an event loop alone can give: import asyncio in the source")


def _run_in_loop(evaluate: Callable[[EvaluationContext], Any], context: EvaluationContext) -> Any:
    import asyncio

    result = evaluate(context)
    if not hasattr(result, "__await__"):
        return result

    async def awaited() -> Any:
        return await result

    return asyncio.run(awaited())


def _told(error: BaseException) -> str:
    """`Type: text (line N)`, with the innermost line that is of the source."""
    kind = type(error).__name__
    try:
        text = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    except BaseException:  # noqa: BLE001  # it is the author's own `__str__`
        text = "(its message could not be read)"
    if isinstance(error, ModuleNotFoundError):
        text += ". An evaluator has the standard library alone"
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == _FILE else _line(error.__traceback__)
    where = f" (line {line})" if line else ""
    return f"{kind}: {text[:_MESSAGE_CHARACTERS]}{where}" if text else f"{kind}{where}"


def _line(trace: TracebackType | None) -> int | None:
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _scores(result: object) -> list[dict[str, Any]]:
    """The scores as JSON has them. Raises Unfit."""
    if isinstance(result, EvaluationResult):
        scores: object = result.scores
    elif isinstance(result, dict):
        scores = result.get("scores")
    else:
        raise Unfit(
            f"`evaluate` returned {_named(result)}: return EvaluationResult(scores=[...]), or a dict with `scores`"
        )
    if not isinstance(scores, list | tuple):
        raise Unfit(f"`scores` is {_named(scores)}, and must be a list of Score or of dicts")
    return [_members(each, number) for number, each in enumerate(scores)]


def _members(item: object, number: int) -> dict[str, Any]:
    if isinstance(item, Score):
        item = vars(item)
    if not isinstance(item, dict):
        raise Unfit(f"scores[{number}] is {_named(item)}: write Score(value=..., name=...), or a dict with both")
    named = {_MEMBERS.get(name, name): value for name, value in item.items() if value is not None}
    try:
        return {name: _plain(named[name]) for name in _ON_THE_WIRE if name in named}
    except (ValueError, OverflowError) as error:
        raise Unfit(f"scores[{number}]: {error}") from None
    except RecursionError:
        raise Unfit(f"scores[{number}] is nested without an end") from None


def _plain(value: object) -> Any:
    """A value as JSON can hold it; what JSON has no word for is its `str`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = int(value)
        return number if -(1 << 63) <= number < 1 << 63 else float(number)
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{float(value)} is no number that JSON can hold")
        return float(value)
    if isinstance(value, dict):
        return {name if isinstance(name, str) else str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    text = str.__str__(value) if isinstance(value, str) else str(value)
    return text.encode("utf-8", "replace").decode()  # half of a pair of surrogates is no text


def _size(answer: dict[str, Any]) -> int:
    from json import dumps  # here: an evaluator that fails does without

    return len(dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())


def _named(value: object) -> str:
    return "None" if value is None else f"of type `{type(value).__name__[:100]}`"
