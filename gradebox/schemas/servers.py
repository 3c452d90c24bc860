"""Models and endpoints of a project, and the tests of their servers."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from gradebox.schemas.base import Schema, StrictSchema

ModelFailure = Literal["unknown", "unreachable", "rate_limited", "refused", "cut_off", "invalid_reply", "over_budget"]


class ModelDefaults(StrictSchema):
    """Parameters that are sent with each request to a model, unless the request overrides them."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None


class ProjectModel(Schema):
    """A model of a project, on any server with OpenAI's chat completions API. Its API key is never shown."""

    project: str
    key: str
    base_url: str
    model: str = Field(description="name of the model at the server")
    has_api_key: bool
    defaults: ModelDefaults
    timeout_s: float = Field(description="seconds for one complete reply")
    max_concurrency: int = Field(16, description="simultaneous requests of all workers together")
    requests_per_minute: int | None = Field(None, description="limit for all workers together; null: no limit")
    tokens_per_minute: int | None = Field(
        None, description="limit of input and output tokens for all workers together; null: no limit"
    )
    input_price: float | None = Field(None, description="USD for a million input tokens; null: not known")
    output_price: float | None = Field(None, description="the same for output tokens; null if the other is")
    keep_replies: bool = Field(True, description="whether replies are kept and reused for equal asks")
    structured_output: bool | None = Field(
        None, description="whether the server supports replies that fit a schema; null: not tested"
    )
    logprobs: bool | None = Field(None, description="whether the server returns log probabilities; null: not tested")
    tested_at: datetime | None = Field(None, description="time of the last passed test since it was changed")
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        return self._in_brackets(f"{self.key} of project {self.project}: {self.model} at {self.base_url}")


class ModelFault(Schema):
    """Why a model gave no usable reply."""

    kind: ModelFailure
    message: str = Field(description="what happened, and what to do")
    retryable: bool = Field(description="whether the same request may succeed later")
    retry_after_s: float | None = Field(None, description="wait that the server requested")


class ModelTrial(Schema):
    """The result of a test of a model."""

    passed: bool
    error: ModelFault | None = None
    reply: str = Field("", description="beginning of the model's reply")
    structured_output: bool | None = None
    logprobs: bool | None = None
    duration_ms: float


class ProjectEndpoint(Schema):
    """An endpoint of a project: a reward server. Its API key and the values of its headers are never shown."""

    project: str
    key: str
    url: str = Field(description="base URL, to which `/score` is appended")
    has_api_key: bool
    header_names: list[str] = Field([], description="names of the headers that are sent with each request, sorted")
    timeout_s: float = Field(description="seconds for one complete reply")
    max_concurrency: int = Field(16, description="simultaneous requests of all workers together")
    requests_per_minute: int | None = Field(None, description="limit for all workers together; null: no limit")
    tested_at: datetime | None = Field(None, description="time of the last passed test since it was changed")
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        return self._in_brackets(f"{self.key} of project {self.project}: {self.url}")


class EndpointTrial(Schema):
    """The result of a test of an endpoint."""

    passed: bool
    error: ModelFault | None = None
    reward: float | None = Field(None, description="reward for the thread that was sent")
    duration_ms: float
