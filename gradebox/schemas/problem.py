"""The error of an answer."""

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """An error of the API (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="stable identifier; its last part names the problem, such as validation-failed")
    title: str
    status: int
    detail: str = Field(description="what happened, to what, and what to do")
    request_id: str
    most_threads: int | None = Field(default=None, description="of a call to score that is too large: the limit of one")
    most_bytes: int | None = Field(default=None, description="the same for the bytes of its body")
