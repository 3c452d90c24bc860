"""Grades LLM completions with untrusted Python.

Graders use `StringThread`, `Score`, `NotApplicable`, and the names of `gradebox.asks`. These are imported inside the
sandbox, which contains only the standard library and the modules of these names. All other names are imported on first
use, so that `import gradebox` takes milliseconds.
"""

from typing import TYPE_CHECKING

from gradebox.score import NotApplicable as NotApplicable
from gradebox.score import Score as Score
from gradebox.thread import StringThread as StringThread
from gradebox.thread import StringTurn as StringTurn

if TYPE_CHECKING:
    from gradebox._openai import openai_grader as openai_grader
    from gradebox.asks import Endpoint as Endpoint
    from gradebox.asks import Grader as Grader
    from gradebox.asks import Model as Model
    from gradebox.asks import ModelError as ModelError
    from gradebox.asks import Reply as Reply
    from gradebox.asks import Verdict as Verdict
    from gradebox.asks import once as once
    from gradebox.client import AsyncBatchHandle as AsyncBatchHandle
    from gradebox.client import AsyncClient as AsyncClient
    from gradebox.client import AsyncGraderHandle as AsyncGraderHandle
    from gradebox.client import AsyncReward as AsyncReward
    from gradebox.client import BatchHandle as BatchHandle
    from gradebox.client import Client as Client
    from gradebox.client import GraderHandle as GraderHandle
    from gradebox.client import Reward as Reward
    from gradebox.errors import ApiError as ApiError
    from gradebox.errors import BatchFailed as BatchFailed
    from gradebox.errors import BuildTimeout as BuildTimeout
    from gradebox.errors import ClientClosed as ClientClosed
    from gradebox.errors import Conflict as Conflict
    from gradebox.errors import ConnectionFailed as ConnectionFailed
    from gradebox.errors import EnvironmentFailed as EnvironmentFailed
    from gradebox.errors import GradeboxError as GradeboxError
    from gradebox.errors import GraderWarning as GraderWarning
    from gradebox.errors import NotAllowed as NotAllowed
    from gradebox.errors import NotFound as NotFound
    from gradebox.errors import OutcomesLost as OutcomesLost
    from gradebox.errors import ScoreMissing as ScoreMissing
    from gradebox.errors import SourceError as SourceError
    from gradebox.errors import TooLarge as TooLarge
    from gradebox.errors import ValidationError as ValidationError
    from gradebox.errors import VersionChanged as VersionChanged
    from gradebox.errors import WaitTimeout as WaitTimeout
    from gradebox.outcome import Outcome as Outcome
    from gradebox.outcome import OutcomeError as OutcomeError
    from gradebox.outcome import Spent as Spent
    from gradebox.schemas import ApiKey as ApiKey
    from gradebox.schemas import Batch as Batch
    from gradebox.schemas import BatchBudget as BatchBudget
    from gradebox.schemas import Check as Check
    from gradebox.schemas import EndpointTrial as EndpointTrial
    from gradebox.schemas import Environment as Environment
    from gradebox.schemas import ModelDefaults as ModelDefaults
    from gradebox.schemas import ModelTrial as ModelTrial
    from gradebox.schemas import Project as Project
    from gradebox.schemas import ProjectBudget as ProjectBudget
    from gradebox.schemas import ProjectEndpoint as ProjectEndpoint
    from gradebox.schemas import ProjectModel as ProjectModel
    from gradebox.schemas import ProjectSpending as ProjectSpending
    from gradebox.schemas import Report as Report
    from gradebox.schemas import Summary as Summary
    from gradebox.schemas import Version as Version
    from gradebox.source import grader_source as grader_source

    __version__: str
else:
    # The names of each module. Type checkers use the imports above instead, and report a misspelt name.
    _NAMES = {
        "gradebox._openai": "openai_grader",
        "gradebox.asks": "Endpoint Grader Model ModelError Reply Verdict once",
        "gradebox.client": "AsyncBatchHandle AsyncClient AsyncGraderHandle AsyncReward BatchHandle Client GraderHandle "
        "Reward",
        "gradebox.errors": "ApiError BatchFailed BuildTimeout ClientClosed Conflict ConnectionFailed EnvironmentFailed "
        "GradeboxError GraderWarning NotAllowed NotFound OutcomesLost ScoreMissing SourceError TooLarge "
        "ValidationError VersionChanged WaitTimeout",
        "gradebox.outcome": "Outcome OutcomeError Spent",
        "gradebox.schemas": "ApiKey Batch BatchBudget Check EndpointTrial Environment ModelDefaults ModelTrial Project "
        "ProjectBudget ProjectEndpoint ProjectModel ProjectSpending Report Summary Version",
        "gradebox.source": "grader_source",
    }
    _MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
    __all__ = sorted(["NotApplicable", "Score", "StringThread", "StringTurn", "__version__", *_MODULE_OF])

    def __getattr__(name):
        from importlib import import_module

        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("gradebox")
            except PackageNotFoundError:  # a checkout that was never installed
                return "0+unknown"
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def __dir__():
        return [*globals(), *__all__]
