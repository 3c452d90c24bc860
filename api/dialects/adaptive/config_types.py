"""What the SDK is answered about the configuration of a grader, by its kind."""

from typing import Annotated, Optional
from uuid import UUID

import strawberry

from api.dialects.adaptive.enums import ModelOnline, PrebuiltCriteriaKey, ProviderName
from api.dialects.adaptive.scalars import Timestamp


@strawberry.type
class ModelComputeConfigOutput:
    """How a model is run."""

    tp: int
    kv_cache_len: int
    max_seq_len: int


@strawberry.type
class Model:
    """A model that a judge names."""

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
    """What a judge is shown."""

    input: list[JudgeExampleTurnEntry]
    output: str
    passes: bool = strawberry.field(name="pass")
    reasoning: str | None


@strawberry.type
class JudgeConfigOutput:
    """A judge, as it was sent."""

    criteria: str
    examples: list[JudgeExample]
    model: Model
    system_template: str
    user_template: str


@strawberry.type
class PrebuiltCriteria:
    """A judge that comes with the platform."""

    key: PrebuiltCriteriaKey
    name: str
    description: str


@strawberry.type
class PrebuiltConfigOutput:
    """A prebuilt judge, as it was sent."""

    criteria: PrebuiltCriteria
    model: Model


@strawberry.type
class RemoteConfigOutput:
    """A reward server elsewhere. It is not asked when it is kept, so its version and description are empty."""

    url: str
    version: str = ""
    description: str = ""


@strawberry.type
class CustomConfigOutput:
    """A grader that is only named."""

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
