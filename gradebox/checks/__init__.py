"""Checks: graders that pass or fail with a reason, for a completion and for the actions of an agent.

    check.py       `ThreadCheck`, and how values are compared and quoted
    text.py        checks of the completion
    trajectory.py  `Trajectory`: the steps of an agent, from the thread's turns or from its metadata
    steps.py       checks of an agent's tool calls and steps
    run.py         `run_all` and `Checks`: several checks as one score

Graders import these modules inside the sandbox, so they import only the standard library, and only when needed.
"""

from gradebox.checks.check import ThreadCheck
from gradebox.checks.run import Checks, run_all
from gradebox.checks.steps import (
    called,
    called_in_order,
    max_duration_ms,
    max_steps,
    max_tokens,
    max_tool_calls,
    not_called,
    output_matches,
    output_not_produced,
    output_produced,
    output_sequence,
)
from gradebox.checks.text import (
    contains,
    ends_with,
    equals,
    fits_schema,
    is_json,
    matches,
    max_characters,
    max_words,
    min_words,
    not_contains,
    not_matches,
    satisfies,
    starts_with,
)
from gradebox.checks.trajectory import Output, Step, Trajectory

__all__ = [
    "Checks",
    "Output",
    "Step",
    "ThreadCheck",
    "Trajectory",
    "called",
    "called_in_order",
    "contains",
    "ends_with",
    "equals",
    "fits_schema",
    "is_json",
    "matches",
    "max_characters",
    "max_duration_ms",
    "max_steps",
    "max_tokens",
    "max_tool_calls",
    "max_words",
    "min_words",
    "not_called",
    "not_contains",
    "not_matches",
    "output_matches",
    "output_not_produced",
    "output_produced",
    "output_sequence",
    "run_all",
    "satisfies",
    "starts_with",
]
