"""Checks of an agent's tool calls and steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradebox.checks.check import ThreadCheck, bounded, count_of, flag_of, quoted, text_of
from gradebox.checks.trajectory import Output, Trajectory, are_recorded
from gradebox.same_json import same
from gradebox.sync_call import refuse_async, sync_call
from gradebox.thread import StringThread

_NAMED = 20  # maximum number of outputs listed in a reason


def called(
    tool: str, arguments: Mapping[str, Any] | None = None, times: int | None = None, exact: bool = False
) -> ThreadCheck:
    """The tool was called: at least once, or exactly `times` times.

    Args:
        tool: its name.
        arguments: arguments that a call must have to count; it may have others too.
        times: the exact number of calls; 0 for never.
        exact: whether a counted call must have these arguments and no others.
    """
    text_of("called", "tool", tool)
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ValueError(f"called(arguments=) takes a dict, and got {arguments!r:.80}")
    if flag_of("called", "exact", exact) and arguments is None:
        raise ValueError("called(exact=True) takes arguments= too: {} for a call without any")
    _check_times("called", times)
    wanted = f"a call of {quoted(tool)}" + ("" if arguments is None else f" with {quoted(dict(arguments))}")

    def problem(thread: StringThread) -> str | None:
        calls = _calls(thread)
        fit = [call for call in calls if call.type == tool and _has(call.value, arguments, exact)]
        if _is_right(len(fit), times):
            return None
        near = [call for call in calls if call.type == tool]
        found = f"{quoted(tool)} with {quoted([call.value for call in near])}" if near else _listed(calls)
        return f"expected {wanted}{_often(times)}, found {len(fit)}; called: {found}"

    settings = {
        "tool": tool,
        **({} if arguments is None else {"arguments": dict(arguments)}),
        **({} if times is None else {"times": times}),
        **({"exact": True} if exact else {}),
    }
    return ThreadCheck("called", settings, problem)


def not_called(tool: str) -> ThreadCheck:
    """The tool was never called."""
    text_of("not_called", "tool", tool)

    def problem(thread: StringThread) -> str | None:
        found = [call.value for call in _calls(thread) if call.type == tool]
        return f"expected no call of {quoted(tool)}, found {len(found)}: {quoted(found)}" if found else None

    return ThreadCheck("not_called", {"tool": tool}, problem)


def called_in_order(tools: Sequence[str]) -> ThreadCheck:
    """The tools were called in this order. Other calls may be in between."""
    _check_names("called_in_order", "tools", tools)
    return ThreadCheck("called_in_order", {"tools": list(tools)}, lambda thread: _out_of_order(tools, _calls(thread)))


def max_tool_calls(n: int) -> ThreadCheck:
    """There are at most `n` tool calls."""
    count_of("max_tool_calls", "n", n)
    return bounded("max_tool_calls", n, "calls of tools", lambda thread: len(_calls(thread)))


def max_steps(n: int) -> ThreadCheck:
    """There are at most `n` steps: assistant turns, or steps in the metadata."""
    count_of("max_steps", "n", n)
    return bounded("max_steps", n, "steps", lambda thread: len(_trajectory(thread).steps or []))


def max_tokens(n: int) -> ThreadCheck:
    """All steps together have at most `n` tokens. It is an error if the count of any step is unknown."""
    count_of("max_tokens", "n", n)

    def total(thread: StringThread) -> float:
        return _known(_trajectory(thread).total_tokens, "tokens")

    return bounded("max_tokens", n, "tokens", total)


def max_duration_ms(n: float) -> ThreadCheck:
    """All steps together take at most `n` milliseconds. It is an error if the duration of any step is unknown."""
    if not isinstance(n, int | float) or isinstance(n, bool) or not n >= 0:
        raise ValueError(f"max_duration_ms(n=) takes a number of at least 0, and got {n!r:.80}")

    def total(thread: StringThread) -> float:
        return _known(_trajectory(thread).total_duration_ms, "duration_ms")

    return bounded("max_duration_ms", n, "ms", total)


def output_produced(type: str, times: int | None = None) -> ThreadCheck:  # noqa: A002  # the metadata's name for it
    """Steps produced outputs of this type: at least one, or exactly `times`."""
    text_of("output_produced", "type", type)
    _check_times("output_produced", times)

    def problem(thread: StringThread) -> str | None:
        outputs = _outputs(thread)
        found = sum(output.type == type for output in outputs)
        if _is_right(found, times):
            return None
        return f"expected an output of type {quoted(type)}{_often(times)}, found {found}; outputs: {_listed(outputs)}"

    return ThreadCheck("output_produced", {"type": type, **({} if times is None else {"times": times})}, problem)


def output_not_produced(type: str) -> ThreadCheck:  # noqa: A002
    """No step produced an output of this type."""
    text_of("output_not_produced", "type", type)

    def problem(thread: StringThread) -> str | None:
        found = sum(output.type == type for output in _outputs(thread))
        return f"expected no output of type {quoted(type)}, found {found}" if found else None

    return ThreadCheck("output_not_produced", {"type": type}, problem)


def output_matches(fn: Callable[[Output], object], times: int | None = None) -> ThreadCheck:
    """The function is true for at least one output, or for exactly `times` outputs."""
    if not callable(fn):
        raise ValueError(f"output_matches(fn=) takes a function of an output, and got {fn!r:.80}")
    refuse_async("output_matches(fn=)", fn)
    _check_times("output_matches", times)

    def problem(thread: StringThread) -> str | None:
        outputs = _outputs(thread)
        found = sum(bool(sync_call("output_matches(fn=)", fn, output)) for output in outputs)
        if _is_right(found, times):
            return None
        return f"expected an output that {quoted(fn)} fits{_often(times)}, found {found}; outputs: {_listed(outputs)}"

    return ThreadCheck("output_matches", {"fn": fn, **({} if times is None else {"times": times})}, problem)


def output_sequence(types: Sequence[str]) -> ThreadCheck:
    """Outputs of these types were produced in this order. Others may be in between."""
    _check_names("output_sequence", "types", types)
    return ThreadCheck("output_sequence", {"types": list(types)}, lambda thread: _out_of_order(types, _outputs(thread)))


def _trajectory(thread: StringThread) -> Trajectory:
    trajectory = Trajectory.of(thread)
    if trajectory.steps is None:
        raise ValueError(
            'the thread has no turn of the assistant and no metadata["trajectory"]["steps"], so there is no step to '
            "check: send one of them"
        )
    if are_recorded(thread):
        return trajectory
    called = [output for output in trajectory.outputs if output.is_call]
    if not called and _has_results(thread):
        raise ValueError(
            'the thread has a turn of a tool, and no turn of the assistant has "tool_calls": send the messages of the '
            "agent with all of their members, because without them it is unknown which tools were called"
        )
    if any(not output.type for output in called):
        raise ValueError('a call in "tool_calls" has no name: send {"function": {"name": …, "arguments": …}}')
    return trajectory


def _outputs(thread: StringThread) -> list[Output]:
    outputs = _trajectory(thread).outputs
    has_calls = any(output.is_call for output in outputs)
    if are_recorded(thread) and not has_calls and (thread.tool_calls or _has_results(thread)):
        raise ValueError(
            'no step in metadata["trajectory"]["steps"] has a "type", and the messages have calls of tools: send the '
            'tool\'s name as the "type" of each step that is a call, because these steps replace the turns'
        )
    return outputs


def _has_results(thread: StringThread) -> bool:
    return any(turn.role in ("tool", "function") for turn in thread.get_turns())


def _calls(thread: StringThread) -> list[Output]:
    return [output for output in _outputs(thread) if output.is_call]


def _has(found: object, arguments: Mapping[str, Any] | None, exact: bool) -> bool:
    if arguments is None:
        return True
    if not isinstance(found, dict) or (exact and found.keys() != arguments.keys()):
        return False
    return all(name in found and same(found[name], value) for name, value in arguments.items())


def _known(total: float | None, member: str) -> float:
    if total is None:
        raise ValueError(
            f'a step has no "{member}", so their total is not known: send "{member}" with each step or message, or '
            f'metadata["trajectory"]["total_{member}"]'
        )
    return total


def _out_of_order(wanted: Sequence[str], outputs: list[Output]) -> str | None:
    rest = iter(output.type for output in outputs)
    if all(name in rest for name in wanted):
        return None
    return f"expected the sequence {quoted(list(wanted))}, found {_listed(outputs)}"


def _is_right(found: int, times: int | None) -> bool:
    return found > 0 if times is None else found == times


def _often(times: int | None) -> str:
    return "" if times is None else f" {times} times"


def _listed(outputs: list[Output]) -> str:
    if not outputs:
        return "nothing"
    more = f", and {len(outputs) - _NAMED} more" if len(outputs) > _NAMED else ""
    return quoted([output.type[:80] for output in outputs[:_NAMED]], 400) + more


def _check_times(check: str, times: object) -> None:
    if times is not None:
        count_of(check, "times", times)


def _check_names(check: str, name: str, names: object) -> None:
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) and one for one in names):
        raise ValueError(f"{check}({name}=) takes a list of names, and got {names!r:.80}")
