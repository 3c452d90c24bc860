"""Graders of each kind, from what the SDK sends to what is kept, and back."""

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
from api.dialects.adaptive.scalars import timestamp
from api.http.problems import invalid
from gradebox.schemas import Grader, Kind, Project, Version
from storage.grader_content import Declared

Config = JudgeConfigInput | PrebuiltConfigInput | RemoteConfigInput | CustomConfigInput | FunctionConfigInput

_KINDS: dict[GraderTypeEnum, tuple[Kind, type]] = {
    GraderTypeEnum.FUNCTION: ("function", FunctionConfigInput),
    GraderTypeEnum.JUDGE: ("judge", JudgeConfigInput),
    GraderTypeEnum.PREBUILT: ("prebuilt", PrebuiltConfigInput),
    GraderTypeEnum.REMOTE: ("external", RemoteConfigInput),
    GraderTypeEnum.CUSTOM: ("custom", CustomConfigInput),
}
_TYPES = {kind: grader_type for grader_type, (kind, _) in _KINDS.items()}
_NOT_RUN = "gradebox keeps the model's key and does not run it"


def kind_of(grader_type: GraderTypeEnum) -> Kind:
    """Our word for a type of grader."""
    return _KINDS[grader_type][0]


def read(config: GraderConfigInput, kind: Kind) -> Config:
    """The config of a grader of this kind. Raises ProblemError where it is not that, or not alone."""
    members = {name: member for name, member in vars(config).items() if member is not None}
    found = next(iter(members.values()), None)
    if len(members) == 1 and isinstance(found, Config) and type(found) is _KINDS[_TYPES[kind]][1]:
        return found
    names = ", ".join(members) or "nothing"
    raise invalid(f"graderConfig holds {names}, and a grader of type {_TYPES[kind].name} takes one config, its own")


def declared(config: Config) -> Declared:
    """What is kept of a grader that is not run."""
    match config:
        case JudgeConfigInput():
            examples = [{**asdict(example), "id": example.id and str(example.id)} for example in config.examples]
            return Declared("judge", {**asdict(config), "examples": examples})
        case PrebuiltConfigInput():
            return Declared("prebuilt", {"criteria": config.key.value, "model": config.model})
        case RemoteConfigInput():
            return Declared("external", {"url": config.url})
        case CustomConfigInput():
            return Declared("custom", {})
        case FunctionConfigInput():
            raise ValueError("a function is proved, not declared")


def grader(project: Project, kept: Grader, version: Version) -> types.Grader:
    """A grader with its newest version, as the SDK reads it."""
    return types.Grader(
        id=ids.of_grader(kept),
        name=kept.name,
        key=kept.key,
        locked=kept.locked,
        grader_type=_TYPES[kept.kind],
        grader_config=_output(kept, version.source, version.config or {}),
        project=types.project(project),
        metric=types.metric(kept),
        created_at=timestamp(kept.created_at),
        updated_at=timestamp(kept.updated_at),
    )


def _output(kept: Grader, source: str, config: dict[str, Any]) -> config_types.GraderConfig:
    match kept.kind:
        case "function":
            return config_types.FunctionConfigOutput(source_code=source, description=kept.description or None)
        case "custom":
            return config_types.CustomConfigOutput(description=kept.description or None)
        case "external":
            return config_types.RemoteConfigOutput(url=config["url"])
        case "prebuilt":
            return config_types.PrebuiltConfigOutput(criteria=_criteria(config["criteria"]), model=_model(kept, config))
        case "judge" | "binary_judge":
            return config_types.JudgeConfigOutput(
                criteria=config["criteria"],
                examples=[_example(example) for example in config["examples"]],
                model=_model(kept, config),
                system_template=config["system_template"],
                user_template=config["user_template"],
            )


def _example(example: dict[str, Any]) -> config_types.JudgeExample:
    turn_of = config_types.JudgeExampleTurnEntry
    turns = [turn_of(role=turn["role"], content=turn["content"]) for turn in example["input"]]
    return config_types.JudgeExample(
        input=turns, output=example["output"], passes=example["passes"], reasoning=example["reasoning"]
    )


def _criteria(name: str) -> config_types.PrebuiltCriteria:
    words = name.replace("_", " ").capitalize()
    return config_types.PrebuiltCriteria(key=PrebuiltCriteriaKey(name), name=words, description=words)


def _model(kept: Grader, config: dict[str, Any]) -> config_types.Model:
    key = config["model"]
    return config_types.Model(
        id=ids.of_model(key),
        key=key,
        name=key,
        online=ModelOnline.OFFLINE,
        error=_NOT_RUN,
        is_external=True,
        provider_name=ProviderName.HARMONY,
        is_adapter=False,
        is_training=False,
        created_at=timestamp(kept.created_at),
    )
