"""An API request together with the reader of its answer, as a value that both clients can send."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Generic, TypeVar

import httpx
from pydantic import ValidationError as SchemaError

from gradebox.client.threads import Threads
from gradebox.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    GradeboxError,
    NotAllowed,
    NotFound,
    OutcomesLost,
    TooLarge,
    ValidationError,
    VersionChanged,
)
from gradebox.schemas import Problem, Report

T = TypeVar("T")
Params = Sequence[tuple[str, str]]
_KINDS = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: OutcomesLost,
    412: VersionChanged,
    413: TooLarge,
}
_NO_ANSWER = "a proxy has no answer of the service. Check that it runs; for a long request, raise the proxy's timeout"
_OF_PROXIES = {
    407: "the proxy wants a user and a password. Write them into HTTP_PROXY: http://user:password@host:port",
    413: "a proxy limits the size of requests. Raise its limit (of nginx: client_max_body_size), or send fewer threads",
    502: _NO_ANSWER,
    503: _NO_ANSWER,
    504: _NO_ANSWER,
}


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and the function that reads the body of its answer.

    Attributes:
        body: the encoded body; the `threads` of a batch are streamed instead.
        media_type: the media type of the body.
        once: the Idempotency-Key, which makes the request idempotent.
        if_version: the version that must be the grader's newest one, else the service refuses the request (`If-Match`).
        idempotent: whether sending the request twice has the same effect as once, so that it may be retried.
        gone_is_done: whether a 404 on a retry means that the first try succeeded; for ids that are never reused.
        work_s: how many seconds the service may need for the request, in addition to the client's timeout.
        within_s: how many seconds the caller waits at most, for all tries.
        if_slow: what is logged if the answer takes long.
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    params: Params = ()
    body: bytes | None = None
    media_type: str = "application/json"
    threads: Threads | None = None
    once: str | None = None
    if_version: int | None = None
    idempotent: bool = True
    gone_is_done: bool = False
    work_s: float = 0.0
    within_s: float = inf
    if_slow: str = ""

    def headers(self, size: int | None) -> dict[str, str]:
        """The headers for the body, the Idempotency-Key and the required version. `size` is that of the threads."""
        headers = {"Idempotency-Key": self.once} if self.once is not None else {}
        if self.if_version is not None:
            headers["If-Match"] = f'"{self.if_version}"'
        if self.threads is not None:
            headers["Content-Type"] = "application/x-ndjson"
            if size is not None:
                headers["Content-Length"] = str(size)
        elif self.body is not None:
            headers["Content-Type"] = self.media_type
        return headers

    def answer(self, response: httpx.Response) -> T:
        """Reads an answer whose body has arrived.

        Raises:
            GradeboxError: the service refused the request, or the answer does not come from gradebox.
        """
        if not is_answer(response):
            raise refusal(response)
        if self.read is nothing and response.status_code != httpx.codes.NO_CONTENT:
            raise _foreign(response)
        try:
            return self.read(response.content)
        except ValueError as error:  # pydantic's and msgspec's errors are ValueErrors
            raise _foreign(response) from error


def encode(value: Mapping[str, Any]) -> bytes:
    """A JSON body without the members that are None. It is ASCII, since escapes can represent lone surrogates.

    Raises:
        ValueError: a number is not finite.
    """
    for name, part in value.items():
        if isinstance(part, float) and not isfinite(part):
            raise ValueError(f"{name}= is {part}, and must be a finite number")
    return json.dumps({name: part for name, part in value.items() if part is not None}, allow_nan=False).encode()


def is_answer(response: httpx.Response) -> bool:
    """Whether this is an answer to a request, and neither an error nor a proxy's page to sign in. The service names the
    type of each body, which is JSON or lines of it: a thread may be any text, so that a page could be read as threads.
    """
    has_body = response.status_code != httpx.codes.NO_CONTENT
    return response.is_success and (not has_body or "json" in response.headers.get("Content-Type", ""))


def refusal(response: httpx.Response) -> GradeboxError:
    """The exception for an error response."""
    problem = problem_of(response)
    if problem is None:
        return _foreign(response)
    report = (problem.model_extra or {}).get("report")
    if report is not None:
        return ValidationError(Report.model_validate(report))
    return _KINDS.get(problem.status, ApiError)(problem)


def problem_of(response: httpx.Response) -> Problem | None:
    """The problem in an answer; None if the answer does not come from gradebox."""
    try:
        return Problem.model_validate_json(response.content)
    except SchemaError:
        return None


def _foreign(response: httpx.Response) -> ConnectionFailed:
    advice = _OF_PROXIES.get(response.status_code, "is the URL that of a gradebox service, and of this version?")
    if response.has_redirect_location:
        goal = response.headers["Location"][:200]
        advice = f"it redirects to {goal!r}, which is not followed. Name the URL of the service itself"
    return ConnectionFailed(
        f"{response.url} answered {response.status_code}, but not as gradebox does ({response.text[:80]!r}): {advice}"
    )


def nothing(body: bytes) -> None:
    """Reads an answer without a body, which has the status 204. `Call.answer` refuses any other: nothing was done."""
