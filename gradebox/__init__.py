"""Grades LLM completions with untrusted Python.

Graders use `StringThread`, `Score`, `NotApplicable`, and the names of `gradebox.asks`. These are imported inside the
sandbox, which contains only the standard library and the modules of these names. All other names are imported on first
use, so that `import gradebox` takes milliseconds.
"""

from typing import TYPE_CHECKING

from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread, StringTurn

if TYPE_CHECKING:
    from gradebox._openai import openai_grader
    from gradebox.asks import Endpoint, Grader, Model, ModelError, Reply, Verdict, once
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
        ClientClosed,
        Conflict,
        ConnectionFailed,
        EnvironmentFailed,
        GradeboxError,
        GraderWarning,
        NotAllowed,
        NotFound,
        OutcomesLost,
        ScoreMissing,
        SourceError,
        TooLarge,
        ValidationError,
        VersionChanged,
        WaitTimeout,
    )
    from gradebox.outcome import Outcome, OutcomeError, Spent
    from gradebox.schemas import (
        ApiKey,
        Batch,
        BatchBudget,
        Check,
        EndpointTrial,
        Environment,
        ModelDefaults,
        ModelTrial,
        Price,
        Project,
        ProjectBudget,
        ProjectEndpoint,
        ProjectModel,
        ProjectSpending,
        Report,
        Summary,
        Version,
    )
    from gradebox.source import grader_source

    __version__: str
else:
    # The module of each name. Type checkers use the imports above instead, and report a misspelt name.
    _MODULES = {
        "gradebox._openai": ("openai_grader",),
        "gradebox.asks": ("Endpoint", "Grader", "Model", "ModelError", "Reply", "Verdict", "once"),
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
            "ClientClosed",
            "Conflict",
            "ConnectionFailed",
            "EnvironmentFailed",
            "GradeboxError",
            "GraderWarning",
            "NotAllowed",
            "NotFound",
            "OutcomesLost",
            "ScoreMissing",
            "SourceError",
            "TooLarge",
            "VersionChanged",
            "ValidationError",
            "WaitTimeout",
        ),
        "gradebox.outcome": ("Outcome", "OutcomeError", "Spent"),
        "gradebox.schemas": (
            "ApiKey",
            "Batch",
            "BatchBudget",
            "Check",
            "Environment",
            "EndpointTrial",
            "ModelDefaults",
            "ModelTrial",
            "Price",
            "Project",
            "ProjectBudget",
            "ProjectEndpoint",
            "ProjectModel",
            "ProjectSpending",
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
        home = next((module for module, names in _MODULES.items() if name in names), None)
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
    "BatchBudget",
    "BatchFailed",
    "BatchHandle",
    "BuildTimeout",
    "Check",
    "Client",
    "ClientClosed",
    "Conflict",
    "ConnectionFailed",
    "Endpoint",
    "EndpointTrial",
    "Environment",
    "EnvironmentFailed",
    "GradeboxError",
    "Grader",
    "GraderHandle",
    "GraderWarning",
    "Model",
    "ModelDefaults",
    "ModelError",
    "ModelTrial",
    "NotAllowed",
    "NotApplicable",
    "NotFound",
    "Outcome",
    "OutcomeError",
    "OutcomesLost",
    "Price",
    "Project",
    "ProjectBudget",
    "ProjectEndpoint",
    "ProjectModel",
    "ProjectSpending",
    "Reply",
    "Report",
    "Reward",
    "Score",
    "ScoreMissing",
    "SourceError",
    "Spent",
    "StringThread",
    "StringTurn",
    "Summary",
    "TooLarge",
    "ValidationError",
    "Verdict",
    "Version",
    "VersionChanged",
    "WaitTimeout",
    "__version__",
    "grader_source",
    "once",
    "openai_grader",
]
