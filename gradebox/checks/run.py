"""Several checks as one score."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradebox.checks import steps, text
from gradebox.checks.check import ThreadCheck, quoted
from gradebox.checks.trajectory import Trajectory
from gradebox.score import DETAILS_BYTES, Score
from gradebox.sync_call import sync_call
from gradebox.thread import StringThread

MOST_CHECKS = 50
_WIDTHS = (400, 100, 16)  # characters of a name and of a reason in details; the last width always fits
_AROUND = 48  # characters of JSON around name and reason
_CHARACTER_BYTES = 6  # maximum bytes of one character in JSON
_ROOM = DETAILS_BYTES - 512  # for the summary
_REASON_CHARACTERS = 1_000

AnyCheck = ThreadCheck | Callable[[StringThread], object]
"""A check, or a function of a thread that returns 1 or 0: a `Score`, a number or a boolean."""

_MADE_BY: dict[str, Callable[..., ThreadCheck]] = {
    make.__name__: make
    for make in (
        *(text.contains, text.not_contains, text.matches, text.not_matches, text.starts_with, text.ends_with),
        *(text.equals, text.max_words, text.min_words, text.max_characters, text.is_json, text.fits_schema),
        *(steps.called, steps.not_called, steps.called_in_order, steps.max_tool_calls, steps.max_steps),
        *(steps.max_tokens, steps.max_duration_ms, steps.output_produced, steps.output_not_produced),
        steps.output_sequence,
    )
}


def run_all(checks: Sequence[AnyCheck], thread: StringThread) -> Score:
    """Score 1.0 if a thread passes all checks, else 0.0. All checks run, in order; details have each result and a
    summary.

    Raises:
        ValueError: there is no check, or more than 50, or one returns neither 1 nor 0. Exceptions of a check propagate.
    """
    if not checks:
        raise ValueError("there is no check, so every thread would pass: give run_all at least one")
    if len(checks) > MOST_CHECKS:
        raise ValueError(
            f"there are {len(checks)} checks, and at most {MOST_CHECKS} are run together: make two graders"
        )
    results = [(_name_of(check), _result(check, thread)) for check in checks]
    failed = [(name, result) for name, result in results if not result]
    trajectory = Trajectory.of(thread)
    summary = {
        "passed": not failed,
        "total_checks": len(results),
        "passed_count": len(results) - len(failed),
        "failed_count": len(failed),
        "total_steps": None if trajectory.steps is None else len(trajectory.steps),
        "total_tokens": trajectory.total_tokens,
        "total_duration_ms": trajectory.total_duration_ms,
    }
    reported = "; ".join(f"{_cut(name, 100)}: {result.reason}" for name, result in failed)
    return Score(
        float(not failed),
        _cut(reported, _REASON_CHARACTERS) or None,
        details={"summary": summary, "checks": _listed(results)},
    )


class Checks:
    """Several checks as a grader: `await checks(thread)` is `run_all`."""

    def __init__(self, checks: Sequence[AnyCheck | Mapping[str, Any]]) -> None:
        """Each check may be given as JSON: `{"check": "contains", "text": "x"}`.

        Raises:
            ValueError: there is no check, or more than 50, or one is invalid; the message names it.
        """
        if isinstance(checks, str | Mapping) or not 0 < len(checks) <= MOST_CHECKS:
            raise ValueError(f"checks= takes a list of 1 to {MOST_CHECKS} checks, and got {checks!r:.80}")
        self.checks = [_made(check, number) for number, check in enumerate(checks)]

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread. Raises what `run_all` raises."""
        return run_all(self.checks, thread)

    def __repr__(self) -> str:
        return f"Checks({self.checks!r})"


def _made(check: AnyCheck | Mapping[str, Any], number: int) -> AnyCheck:
    if not isinstance(check, Mapping):
        if not callable(check):
            raise ValueError(f'checks[{number}] is no check: write {{"check": "contains", "text": "…"}}')
        return check
    settings = dict(check)
    name = settings.pop("check", None)
    if not isinstance(name, str) or name not in _MADE_BY:
        raise ValueError(f"checks[{number}] is {name!r:.80}: there are {', '.join(_MADE_BY)}")
    try:
        return _MADE_BY[name](**settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"checks[{number}]: {error}") from None


def _result(check: AnyCheck, thread: StringThread) -> Score:
    result = sync_call("run_all()", check, thread)
    if not isinstance(result, int | float) or result not in (0, 1):
        raise ValueError(f"the check {_name_of(check)} gave {result!r:.80}, and a check gives 1 or 0, at once")
    reason = result.reason if isinstance(result, Score) else None
    return Score.passed(reason) if result else Score.failed(reason or "it gave 0, and no reason")


def _name_of(check: AnyCheck) -> str:
    return repr(check) if isinstance(check, ThreadCheck) else quoted(check)


def _listed(results: list[tuple[str, Score]]) -> list[dict[str, Any]]:
    """Each result, cut so that all fit into the details."""
    listed: list[dict[str, Any]] = []
    for width in _WIDTHS:
        listed = [
            {"check": _cut(name, width), "passed": bool(result), "reason": _cut(result.reason, width)}
            for name, result in results
        ]
        if _fits(listed):
            break
    return listed


def _fits(listed: list[dict[str, Any]]) -> bool:
    if sum(len(one["check"]) + len(one["reason"] or "") + _AROUND for one in listed) * _CHARACTER_BYTES <= _ROOM:
        return True
    from json import dumps  # imported here: it is rarely needed

    return len(dumps(listed, ensure_ascii=False).encode()) <= _ROOM


def _cut(text: str | None, width: int) -> Any:
    """Cut a text to about this many characters, and escape what UTF-8 cannot encode."""
    if text is None:
        return None
    whole = text[: width + 1].encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= width else f"{whole[:width]}…"
