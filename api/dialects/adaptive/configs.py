"""Converts graders of each kind between the SDK's types and the stored ones."""

import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from api.dialects.adaptive import config_types, ids, types
from api.dialects.adaptive.enums import GraderTypeEnum, ModelOnline, PrebuiltCriteriaKey, ProviderName
from api.dialects.adaptive.inputs import (
    CustomConfigInput,
    FunctionConfigInput,
    GraderConfigInput,
    JudgeConfigInput,
    PrebuiltConfigInput,
    RemoteConfigInput,
)
from api.dialects.adaptive.project_servers import ProjectServers
from api.dialects.adaptive.scalars import timestamp
from api.http.problems import invalid
from gradebox.judges.binary_prompts import SYSTEM, USER
from gradebox.schemas import GraderRecord, Kind, Project, ProjectModel, Version, WrittenKind

Config = JudgeConfigInput | PrebuiltConfigInput | RemoteConfigInput | CustomConfigInput | FunctionConfigInput

_OWN_TEMPERATURE = re.compile(r"(?:.*/)?(?:gpt-5|o[134])(?![a-zA-Z0-9])")
_PREBUILT: dict[PrebuiltCriteriaKey, WrittenKind] = {
    PrebuiltCriteriaKey.FAITHFULNESS: "faithfulness",
    PrebuiltCriteriaKey.CONTEXT_RELEVANCY: "context_relevancy",
    PrebuiltCriteriaKey.ANSWER_RELEVANCY: "answer_relevancy",
}
_CRITERIA: dict[Kind, PrebuiltCriteriaKey] = {kind: key for key, kind in _PREBUILT.items()}
_INPUTS: dict[GraderTypeEnum, type[Config]] = {
    GraderTypeEnum.FUNCTION: FunctionConfigInput,
    GraderTypeEnum.JUDGE: JudgeConfigInput,
    GraderTypeEnum.PREBUILT: PrebuiltConfigInput,
    GraderTypeEnum.REMOTE: RemoteConfigInput,
    GraderTypeEnum.CUSTOM: CustomConfigInput,
}
_TYPES: dict[Kind, GraderTypeEnum] = {
    "function": GraderTypeEnum.FUNCTION,
    "checks": GraderTypeEnum.FUNCTION,  # the SDK has no such type, so it gets the generated source
    "combine": GraderTypeEnum.FUNCTION,
    "multi_criteria": GraderTypeEnum.FUNCTION,
    "pairwise_judge": GraderTypeEnum.FUNCTION,
    "binary_judge": GraderTypeEnum.JUDGE,
    "judge": GraderTypeEnum.JUDGE,
    **dict.fromkeys(_CRITERIA, GraderTypeEnum.PREBUILT),
    "external": GraderTypeEnum.REMOTE,
    "custom": GraderTypeEnum.CUSTOM,
}


def type_of(kind: Kind) -> GraderTypeEnum:
    """The SDK type of a grader kind."""
    return _TYPES[kind]


def read(config: GraderConfigInput, grader_type: GraderTypeEnum) -> Config:
    """The config of a grader of this type. Raises ProblemError if another config or more than one is set."""
    members = {name: member for name, member in vars(config).items() if member is not None}
    found = next(iter(members.values()), None)
    if len(members) == 1 and isinstance(found, Config) and type(found) is _INPUTS[grader_type]:
        return found
    names = ", ".join(members) or "nothing"
    raise invalid(f"graderConfig holds {names}, and a grader of type {grader_type.name} takes one config, its own")


def judge(config: JudgeConfigInput | PrebuiltConfigInput) -> tuple[WrittenKind, dict[str, Any]]:
    """The kind of a judge, binary or built into the platform, and its settings."""
    if isinstance(config, PrebuiltConfigInput):
        return _PREBUILT[config.key], {"judge_model": config.model}
    return "binary_judge", {
        "criteria": config.criteria,
        "judge_model": config.model,
        "examples": [_without_id(asdict(example)) for example in config.examples],
        "system_template": config.system_template,
        "user_template": config.user_template,
    }


def sampling(model: str, models: Iterable[ProjectModel]) -> dict[str, Any]:
    """The temperature of a judge that asks this model, if it is not a judge's default of 0. The SDK has no setting for
    it, and these models of OpenAI refuse any temperature but their own.
    """
    has_own = any(one.key == model and _OWN_TEMPERATURE.match(one.model) for one in models)
    return {"temperature": None} if has_own else {}


def _without_id(example: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in example.items() if name != "id" and (name, value) != ("reasoning", None)}


def grader(project: Project, kept: GraderRecord, version: Version, there: ProjectServers) -> types.Grader:
    """Converts a grader with its newest version to the SDK's type."""
    return types.Grader(
        id=ids.of_grader(kept),
        name=kept.name,
        key=kept.key,
        locked=kept.locked,
        grader_type=_TYPES[kept.kind],
        grader_config=_output(kept, version.source, version.config or {}, there),
        project=types.project(project),
        metric=types.metric(kept),
        created_at=timestamp(kept.created_at),
        updated_at=timestamp(kept.updated_at),
    )


def _output(
    kept: GraderRecord, source: str, config: dict[str, Any], there: ProjectServers
) -> config_types.GraderConfig:
    match kept.kind:
        case "function" | "checks" | "combine" | "multi_criteria" | "pairwise_judge":
            return config_types.FunctionConfigOutput(source_code=source, description=kept.description or None)
        case "custom":
            return config_types.CustomConfigOutput(description=kept.description or None)
        case "external":
            return config_types.RemoteConfigOutput(url=there.url_of(config["endpoint"]))
        case "faithfulness" | "context_relevancy" | "answer_relevancy":
            model = _model(kept, config, there)
            return config_types.PrebuiltConfigOutput(criteria=_criteria(_CRITERIA[kept.kind]), model=model)
        case "judge":
            return config_types.JudgeConfigOutput(
                criteria=_text(config["criterion"]),
                examples=[],
                model=_model(kept, config, there),
                system_template="",
                user_template="",
            )
        case "binary_judge":
            return config_types.JudgeConfigOutput(
                criteria=config["criteria"],
                examples=[_example(example) for example in config.get("examples", [])],
                model=_model(kept, config, there),
                system_template=config.get("system_template", SYSTEM),
                user_template=config.get("user_template", USER),
            )


def _example(example: dict[str, Any]) -> config_types.JudgeExample:
    turn_of = config_types.JudgeExampleTurnEntry
    turns = [turn_of(role=turn["role"], content=turn["content"]) for turn in example["input"]]
    return config_types.JudgeExample(
        input=turns, output=example["output"], passes=example["passes"], reasoning=example.get("reasoning")
    )


def _text(criterion: str | dict[str, Any]) -> str:
    """A direct judge's criterion as text, since the SDK has no options."""
    if isinstance(criterion, str):
        return criterion
    return str(criterion.get("description") or criterion.get("field") or "")


def _criteria(key: PrebuiltCriteriaKey) -> config_types.PrebuiltCriteria:
    words = key.value.replace("_", " ").capitalize()
    return config_types.PrebuiltCriteria(key=key, name=words, description=words)


def _model(kept: GraderRecord, config: dict[str, Any], there: ProjectServers) -> config_types.Model:
    """The model of a judge. It is offline if the project does not have it."""
    key = config["judge_model" if "judge_model" in config else "model"]  # as versions of earlier releases have it
    error = None if there.has_model(key) else f"the project has no model {key!r}: register one of that key"
    return config_types.Model(
        id=ids.of_model(key),
        key=key,
        name=key,
        online=ModelOnline.OFFLINE if error else ModelOnline.ONLINE,
        error=error,
        is_external=True,
        provider_name=ProviderName.HARMONY,
        is_adapter=False,
        is_training=False,
        created_at=timestamp(kept.created_at),
    )
