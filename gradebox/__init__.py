"""Grades LLM completions with untrusted Python.

Graders use `StringThread` and `Score`. Both are imported inside the sandbox, which has only the standard library and
their modules. All other names are imported when they are first used, so that `import gradebox` takes milliseconds.
"""

from typing import TYPE_CHECKING

from gradebox.score import Score
from gradebox.thread import StringThread, StringTurn

if TYPE_CHECKING:
    from gradebox._openai import openai_grader
    from gradebox.client import (
        AsyncBatchHandle,
        AsyncClient,
        AsyncGraderHandle,
        AsyncReward,
        BatchHandle,
        Client,
        GraderHandle,
        Reward,
    )
    from gradebox.errors import (
        ApiError,
        BatchFailed,
        BuildTimeout,
        Conflict,
        ConnectionFailed,
        EnvironmentFailed,
        GradeboxError,
        GraderWarning,
        NotAllowed,
        NotFound,
        ScoreMissing,
        SourceError,
        TooLarge,
        ValidationError,
        WaitTimeout,
    )
    from gradebox.outcome import Outcome, OutcomeError
    from gradebox.schemas import (
        ApiKey,
        Batch,
        Check,
        Environment,
        Grader,
        ModelDefaults,
        ModelTrial,
        Project,
        ProjectModel,
        Report,
        Summary,
        Version,
    )
    from gradebox.source import grader_source

    __version__: str
else:
    # The module of each name. Type checkers read the imports above instead, and report a misspelt name.
    _HOMES = {
        "gradebox._openai": ("openai_grader",),
        "gradebox.source": ("grader_source",),
        "gradebox.client": (
            "AsyncBatchHandle",
            "AsyncClient",
            "AsyncGraderHandle",
            "AsyncReward",
            "BatchHandle",
            "Client",
            "GraderHandle",
            "Reward",
        ),
        "gradebox.errors": (
            "ApiError",
            "BatchFailed",
            "BuildTimeout",
            "Conflict",
            "ConnectionFailed",
            "EnvironmentFailed",
            "GradeboxError",
            "GraderWarning",
            "NotAllowed",
            "NotFound",
            "ScoreMissing",
            "SourceError",
            "TooLarge",
            "ValidationError",
            "WaitTimeout",
        ),
        "gradebox.outcome": ("Outcome", "OutcomeError"),
        "gradebox.schemas": (
            "ApiKey",
            "Batch",
            "Check",
            "Environment",
            "Grader",
            "ModelDefaults",
            "ModelTrial",
            "Project",
            "ProjectModel",
            "Report",
            "Summary",
            "Version",
        ),
    }

    def __getattr__(name):
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("gradebox")
            except PackageNotFoundError:  # a checkout that was never installed
                return "0+unknown"
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value

    def __dir__():
        return [*globals(), *__all__]


__all__ = [
    "ApiError",
    "ApiKey",
    "AsyncBatchHandle",
    "AsyncClient",
    "AsyncGraderHandle",
    "AsyncReward",
    "Batch",
    "BatchFailed",
    "BatchHandle",
    "BuildTimeout",
    "Check",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Environment",
    "EnvironmentFailed",
    "GradeboxError",
    "Grader",
    "GraderHandle",
    "GraderWarning",
    "ModelDefaults",
    "ModelTrial",
    "NotAllowed",
    "NotFound",
    "Outcome",
    "OutcomeError",
    "Project",
    "ProjectModel",
    "Report",
    "Reward",
    "Score",
    "ScoreMissing",
    "SourceError",
    "StringThread",
    "StringTurn",
    "Summary",
    "TooLarge",
    "ValidationError",
    "Version",
    "WaitTimeout",
    "__version__",
    "grader_source",
    "openai_grader",
]
