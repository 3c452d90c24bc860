"""Langfuse's code evaluators: the argument and result types of `evaluate(ctx)`, and a grader that calls it.

Names, fields and defaults are those of Langfuse's own executor for Python evaluators (docs/langfuse.md). Evaluators
import this module inside the sandbox, so it imports only the standard library.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import ModuleType, TracebackType
from typing import Any, Literal

from gradebox import score
from gradebox.thread import StringThread

RESULT_BYTES = 256 * 1024  # of all scores together, as JSON
ErrorCode = Literal["INVALID_SOURCE", "USER_CODE_ERROR", "INVALID_RESULT", "RESULT_TOO_LARGE"]

_MODULE, _FILE = "evaluator", "evaluator.py"
_MESSAGE_CHARACTERS, _NAME_CHARACTERS = 4000, 200
_MEMBERS = {"data_type": "dataType", "config_id": "configId"}  # names in the response
_ON_THE_WIRE = ("name", "value", "dataType", "comment", "configId", "metadata")
_KEYS = {None: "null", True: "true", False: "false"}  # JSON's spelling of these as keys
_PRELOADED = ("asyncio", "random")  # imported if the source mentions them, before the evaluating processes are forked


@dataclass
class ToolCall:
    """A tool call in the observation."""

    id: str = ""
    name: str = ""
    arguments: Any = None
    type: str = ""
    index: int = 0


@dataclass
class ObservationContext:
    """The observation to evaluate. The fields hold any JSON value: Langfuse parses strings that are JSON."""

    input: Any = None
    output: Any = None
    metadata: Any = None
    tool_calls: list[ToolCall] = field(default_factory=list)


@dataclass
class ExperimentContext:
    """The item of the experiment that the observation belongs to."""

    item_expected_output: Any = None
    item_metadata: Any = None


@dataclass
class EvaluationContext:
    """The argument of `evaluate`. `experiment` is None outside experiments."""

    observation: ObservationContext
    experiment: ExperimentContext | None = None


@dataclass
class Score:
    """One score. Fields that are None are omitted."""

    value: int | float | str | bool
    name: str
    data_type: str | None = None
    comment: str | None = None
    config_id: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass
class EvaluationResult:
    """The result of `evaluate`; a dict with `scores` is accepted too."""

    scores: list[Score] = field(default_factory=list)


class Unfit(Exception):
    """`evaluate` returned something that cannot be sent. The message explains what to change."""


class Evaluator:
    """A loaded source with `evaluate(ctx)`. As a grader it always scores 0.0; the result of `evaluate` is in the
    score's details, as `scores`, or as an `error` with `code` and `message`.
    """

    def __init__(self, source: str) -> None:
        """Run the source. If it raises, every thread gets that error as its answer."""
        self._evaluate: Callable[[EvaluationContext], Any] | None = None
        self._fault = ""
        for name in _PRELOADED:
            if name in source:
                __import__(name)
        module = ModuleType(_MODULE)
        module.__file__ = _FILE
        for given in (EvaluationContext, EvaluationResult, Score, ToolCall):
            module.__dict__[given.__name__] = given
        sys.modules[_MODULE] = module  # dataclasses look the module up by name
        try:
            exec(compile(source, _FILE, "exec", dont_inherit=True), module.__dict__)  # noqa: S102  # in a sandbox
        except BaseException as error:  # noqa: BLE001  # every exception of the source is reported to its author
            self._fault = _reported(error)
            return
        evaluate = module.__dict__.get("evaluate")
        if callable(evaluate):
            self._evaluate = evaluate
        elif evaluate is None:
            self._fault = "NameError: there is no `evaluate`: define `def evaluate(ctx)` at the top level of the source"
        else:
            self._fault = f"TypeError: `evaluate` is {_named(evaluate)}, and must be a function: `def evaluate(ctx)`"

    def __call__(self, thread: StringThread) -> score.Score:
        """Evaluate the payload in the thread's metadata."""
        return score.Score(0.0, details=self.answer(thread.metadata))

    def answer(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Run `evaluate` on a payload and return the response for Langfuse."""
        if self._evaluate is None:
            return error_of("INVALID_SOURCE", self._fault)
        if (random := sys.modules.get("random")) is not None:
            random.seed()  # graders use one seed for all completions; evaluators that sample rely on none
        try:
            answer = {"scores": _scores(_finished(self._evaluate(context_of(payload))))}
        except Unfit as unfit:
            return error_of("INVALID_RESULT", str(unfit))
        except BaseException as error:  # noqa: BLE001  # every exception of the evaluator is reported to its author
            return error_of("USER_CODE_ERROR", _reported(error))
        if (size := _size(answer)) > RESULT_BYTES:
            return error_of("RESULT_TOO_LARGE", f"the scores take {size} bytes as JSON, and may take {RESULT_BYTES}")
        return answer


def error_of(code: ErrorCode, message: str) -> dict[str, Any]:
    """Return the response for an error."""
    return {"error": {"code": code, "message": message}}


def context_of(payload: Mapping[str, Any]) -> EvaluationContext:
    """Return the argument of `evaluate` for a payload."""
    found = _object(payload.get("observation"))
    calls = [_tool_call(call) for call in found.get("toolCalls") or ()]
    observation = ObservationContext(found.get("input"), found.get("output"), found.get("metadata"), calls)
    experiment = payload.get("experiment")
    if not isinstance(experiment, dict):
        return EvaluationContext(observation)
    item = ExperimentContext(experiment.get("itemExpectedOutput"), experiment.get("itemMetadata"))
    return EvaluationContext(observation, item)


def _tool_call(call: object) -> ToolCall:
    found = _object(call)
    return ToolCall(
        found.get("id") or "",
        found.get("name") or "",
        found.get("arguments"),
        found.get("type") or "",
        found.get("index") or 0,
    )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _finished(result: Any) -> Any:
    """The result of `evaluate`, awaited if it is a coroutine."""
    if not hasattr(result, "__await__"):
        return result
    if "asyncio" in sys.modules:
        import asyncio

        return asyncio.run(_awaited(result))
    try:
        next(result.__await__())  # a coroutine that never suspends needs no event loop, which is slow to import
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("`evaluate` awaits what an event loop alone can give: import asyncio in the source")


async def _awaited(result: Any) -> Any:
    return await result


def _reported(error: BaseException) -> str:
    """`Type: text (line N)`, with the innermost line that belongs to the source."""
    kind = type(error).__name__[:_NAME_CHARACTERS]
    try:
        text = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    except BaseException:  # noqa: BLE001  # the author's own `__str__` may raise anything
        text = "(its message could not be read)"
    if isinstance(error, ModuleNotFoundError):
        text += ". An evaluator has the standard library alone"
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == _FILE else _line(error.__traceback__)
    where = f" (line {line})" if line else ""
    return _whole(f"{kind}: {text[:_MESSAGE_CHARACTERS]}{where}" if text else f"{kind}{where}")


def _line(trace: TracebackType | None) -> int | None:
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _scores(result: object) -> list[dict[str, Any]]:
    """The scores as JSON values. Raises Unfit."""
    found = _fields(result) if _is_dataclass(result) else result
    if not isinstance(found, dict):
        raise Unfit(
            f"the result of `evaluate` is {_named(result)}: "
            "return EvaluationResult(scores=[...]), or a dict with `scores`"
        )
    scores = found.get("scores")
    if not isinstance(scores, list | tuple):
        raise Unfit(f"`scores` is {_named(scores)}, and must be a list of Score or of dicts")
    return [_members(each, number) for number, each in enumerate(scores)]


def _members(item: object, number: int) -> dict[str, Any]:
    found = _fields(item) if _is_dataclass(item) else item
    if not isinstance(found, dict):
        raise Unfit(f"scores[{number}] is {_named(item)}: write Score(value=..., name=...), or a dict with both")
    named = {_MEMBERS.get(name, name): value for name, value in found.items() if value is not None}
    named |= {name: found[name] for name in _MEMBERS.values() if found.get(name) is not None}
    try:
        return {name: _plain(named[name]) for name in _ON_THE_WIRE if name in named}
    except (ValueError, OverflowError) as error:
        raise Unfit(f"scores[{number}]: {error}") from None
    except RecursionError:
        raise Unfit(f"scores[{number}] is nested without an end") from None


def _is_dataclass(value: object) -> bool:
    """Evaluators made from older templates define their own classes for scores and results."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not None."""
    members = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
    return {name: member for name, member in members if member is not None}


def _plain(value: object) -> Any:
    """Convert a value to JSON types; a value of any other type becomes its `str`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = int(value)
        return number if -(1 << 63) <= number < 1 << 63 else float(number)
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{float(value)} is no number that JSON can hold")
        return float(value)
    if _is_dataclass(value):
        value = {_MEMBERS.get(name, name): member for name, member in _fields(value).items()}
    if isinstance(value, dict):
        return {_key(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return _whole(str.__str__(value) if isinstance(value, str) else str(value))


def _key(name: object) -> str:
    if name is None or isinstance(name, bool):
        return _KEYS[name]
    return _whole(str.__str__(name) if isinstance(name, str) else str(name))


def _whole(text: str) -> str:
    """Replaces lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _size(answer: dict[str, Any]) -> int:
    from json import dumps  # imported here: an evaluator that fails does not need it

    return len(dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())


def _named(value: object) -> str:
    return "None" if value is None else f"of type `{type(value).__name__[:_NAME_CHARACTERS]}`"
