"""The steps of an agent, from the thread's turns or from its metadata.

A thread's assistant turns are its steps. `metadata["trajectory"]` may add what turns do not contain:

    {"steps": [{"output": …, "type": "Search", "tokens": {"input": 12, "output": 3}, "duration_ms": 210}],
     "total_tokens": 15, "total_duration_ms": 250}

Each field is optional. If there are "steps", they replace the turns.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gradebox.thread import StringThread

_MEMBERS = frozenset(("steps", "total_tokens", "total_duration_ms"))
_LARGEST = 1.7976931348623157e308


class Output(NamedTuple):
    """An output of a step: a tool call, a value of a named type, or text.

    Attributes:
        type: the tool's name, the type's name, or "text"; "data" for another value without a type.
        value: the call's arguments, the value, or the text.
        is_call: whether it is a tool call, or a value of a named type.
    """

    type: str
    value: Any
    is_call: bool


class Step(NamedTuple):
    """One call of the model. `tokens` and `duration_ms` are None if they are unknown."""

    outputs: list[Output]
    tokens: float | None
    duration_ms: float | None


class Trajectory(NamedTuple):
    """The steps of an agent. `steps` is None if the thread has no information on them; a total is None if it is unknown
    for any step.
    """

    steps: list[Step] | None
    total_tokens: float | None
    total_duration_ms: float | None

    @property
    def outputs(self) -> list[Output]:
        """The outputs of all steps, in order."""
        return [output for step in self.steps or [] for output in step.outputs]

    @classmethod
    def of(cls, thread: StringThread) -> "Trajectory":
        """Read the trajectory of a thread.

        Raises:
            ValueError: the trajectory does not have the form of docs/checks.md; the message names the wrong part.
        """
        given = _given(thread)
        listed = given.get("steps")
        steps = _of_turns(thread) if listed is None else _of_metadata(listed)
        tokens, duration = given.get("total_tokens"), given.get("total_duration_ms")
        return cls(
            steps,
            _sum(steps, lambda step: step.tokens) if tokens is None else _number(tokens, "total_tokens"),
            _sum(steps, lambda step: step.duration_ms) if duration is None else _number(duration, "total_duration_ms"),
        )


def are_recorded(thread: StringThread) -> bool:
    """Return whether the metadata has the steps, which then replace the turns."""
    return _given(thread).get("steps") is not None


def _given(thread: StringThread) -> Mapping[str, Any]:
    metadata = thread.metadata
    given = metadata.get("trajectory") if isinstance(metadata, Mapping) else None
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f'metadata["trajectory"] must be an object with "steps", and is {given!r:.80}')
    if unknown := [name for name in given if name not in _MEMBERS]:
        raise ValueError(
            f'metadata["trajectory"] has the member {unknown[0]!r:.80}, and may have {", ".join(sorted(_MEMBERS))}'
        )
    return given


def _of_turns(thread: StringThread) -> list[Step] | None:
    messages = [message for message in thread.raw_messages() if message.get("role") == "assistant"]
    steps = thread.steps
    if not steps:
        return None
    return [
        Step(
            [Output(call.name, call.arguments, True) for call in step.tool_calls]
            or [Output("text", step.content, False)],
            _tokens(message.get("tokens", message.get("usage")), f"turn {number} of the assistant"),
            _maybe(message.get("duration_ms"), f'"duration_ms" of turn {number} of the assistant'),
        )
        for number, (step, message) in enumerate(zip(steps, messages, strict=True))
    ]


def _of_metadata(listed: object) -> list[Step]:
    if not isinstance(listed, list):
        raise ValueError(f'metadata["trajectory"]["steps"] must be a list, and is {listed!r:.80}')
    return [_step(step, f'metadata["trajectory"]["steps"][{number}]') for number, step in enumerate(listed)]


def _step(step: object, where: str) -> Step:
    if not isinstance(step, Mapping):
        raise ValueError(f"{where} must be an object, and is {step!r:.80}")
    kind, value = step.get("type"), step.get("output")
    if kind is not None and (not isinstance(kind, str) or not kind):
        raise ValueError(f'"type" of {where} must be a text, and is {kind!r:.80}')
    output = Output(kind or ("text" if isinstance(value, str) else "data"), value, kind is not None)
    duration = _maybe(step.get("duration_ms"), f'"duration_ms" of {where}')
    return Step([output], _tokens(step.get("tokens"), where), duration)


def _tokens(given: object, where: str) -> float | None:
    """The tokens of a step: their total, or the sum of input and output."""
    if given is None or isinstance(given, int | float):
        return _maybe(given, f'"tokens" of {where}')
    if not isinstance(given, Mapping):
        raise ValueError(f'"tokens" of {where} must be a number, or an object with "input" and "output"')
    total = _first(given, "total", "total_tokens")
    if total is not None:
        return _number(total, f'"total" tokens of {where}')
    parts = [
        _first(given, "input", "input_tokens", "prompt_tokens"),
        _first(given, "output", "output_tokens", "completion_tokens"),
    ]
    if None in parts:
        raise ValueError(f'"tokens" of {where} must have "total", or both "input" and "output"')
    return sum(_number(part, f"tokens of {where}") for part in parts)


def _first(given: Mapping[str, Any], *names: str) -> object:
    return next((given[name] for name in names if given.get(name) is not None), None)


def _sum(steps: list[Step] | None, number_of: Callable[[Step], float | None]) -> float | None:
    """The sum; None if the number of any step is unknown."""
    if steps is None:
        return None
    known = [number for step in steps if (number := number_of(step)) is not None]
    return sum(known) if len(known) == len(steps) else None


def _maybe(value: object, where: str) -> float | None:
    return None if value is None else _number(value, where)


def _number(value: object, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError(f"{where} must be a number of at least 0, and is {value!r:.80}")
    return value
