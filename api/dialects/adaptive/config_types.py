"""The GraphQL output types of a grader's configuration, by its kind."""

from typing import Annotated, Optional
from uuid import UUID

import strawberry

from api.dialects.adaptive.enums import ModelOnline, PrebuiltCriteriaKey, ProviderName
from api.dialects.adaptive.scalars import Timestamp


@strawberry.type
class ModelComputeConfigOutput:
    """The compute settings of a model."""

    tp: int
    kv_cache_len: int
    max_seq_len: int


@strawberry.type
class Model:
    """The model of a judge."""

    id: UUID
    key: str
    name: str
    online: ModelOnline
    error: str | None
    is_external: bool
    provider_name: ProviderName
    is_adapter: bool
    is_training: bool
    created_at: Timestamp
    size: int | None = None
    compute_config: ModelComputeConfigOutput | None = None
    backbone: Optional["Model"] = None


@strawberry.type
class JudgeExampleTurnEntry:
    """One turn."""

    role: str
    content: str


@strawberry.type
class JudgeExample:
    """An example of a judge."""

    input: list[JudgeExampleTurnEntry]
    output: str
    passes: bool = strawberry.field(name="pass")
    reasoning: str | None


@strawberry.type
class JudgeConfigOutput:
    """A judge's configuration, as it was sent."""

    criteria: str
    examples: list[JudgeExample]
    model: Model
    system_template: str
    user_template: str


@strawberry.type
class PrebuiltCriteria:
    """A judge that is built into the platform."""

    key: PrebuiltCriteriaKey
    name: str
    description: str


@strawberry.type
class PrebuiltConfigOutput:
    """A prebuilt judge's configuration, as it was sent."""

    criteria: PrebuiltCriteria
    model: Model


@strawberry.type
class RemoteConfigOutput:
    """An external reward server. It is not contacted when it is stored, so its version and description are empty."""

    url: str
    version: str = ""
    description: str = ""


@strawberry.type
class CustomConfigOutput:
    """A grader that is not run."""

    description: str | None


@strawberry.type
class FunctionConfigOutput:
    """A function, with its newest source."""

    source_code: str | None
    description: str | None


GraderConfig = Annotated[
    JudgeConfigOutput | PrebuiltConfigOutput | RemoteConfigOutput | CustomConfigOutput | FunctionConfigOutput,
    strawberry.union("GraderConfig"),
]
