"""The enums of the SDK's schema."""

from enum import Enum

import strawberry


@strawberry.enum
class GraderTypeEnum(Enum):
    """The kinds of graders."""

    JUDGE = "JUDGE"
    PREBUILT = "PREBUILT"
    REMOTE = "REMOTE"
    CUSTOM = "CUSTOM"
    FUNCTION = "FUNCTION"


@strawberry.enum
class PrebuiltCriteriaKey(Enum):
    """The judges that are built into the platform."""

    FAITHFULNESS = "FAITHFULNESS"
    ANSWER_RELEVANCY = "ANSWER_RELEVANCY"
    CONTEXT_RELEVANCY = "CONTEXT_RELEVANCY"


@strawberry.enum
class MetricKind(Enum):
    """The type of a metric's scores."""

    SCALAR = "SCALAR"
    BOOL = "BOOL"


@strawberry.enum
class MetricScoringType(Enum):
    """Whether high or low scores are better."""

    HIGHER_IS_BETTER = "HIGHER_IS_BETTER"
    LOWER_IS_BETTER = "LOWER_IS_BETTER"


@strawberry.enum
class ModelOnline(Enum):
    """The status of a model."""

    ONLINE = "ONLINE"
    DEGRADED = "DEGRADED"
    PENDING = "PENDING"
    SCALING = "SCALING"
    OFFLINE = "OFFLINE"
    ERROR = "ERROR"


@strawberry.enum
class ProviderName(Enum):
    """The provider of a model."""

    OPEN_AI = "OPEN_AI"
    LEGACY_OPEN_AI = "LEGACY_OPEN_AI"
    HARMONY = "HARMONY"
    GOOGLE = "GOOGLE"
    ANTHROPIC = "ANTHROPIC"


@strawberry.enum
class RemoteEnvStatus(Enum):
    """The status of an environment."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
