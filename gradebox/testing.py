"""Tests of graders that ask, without a service: scripted models, endpoints and graders.

with gradebox.testing.model("small-judge", replies=['{"reasoning": "it is", "score": "PASS"}']) as asked:
    score = asyncio.run(grade(StringThread([("user", "Hi"), ("assistant", "Hello!")])))
assert "Hello!" in asked[0]["messages"][-1]["content"]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from gradebox.asks.asking import Answer, Answerer, Request, asker_of, using
from gradebox.asks.errors import ModelError
from gradebox.score import NotApplicable

Said = str | float | dict[str, Any] | Exception
Replies = Sequence[Said] | Callable[[Request], Said]
"""Replies in the order of the asks, or a function that returns the reply to a request."""


def model(key: str, replies: Replies) -> AbstractContextManager[list[Request]]:
    """Script the replies of the model with this key inside the block. Yields the list of received requests.

    A reply is a string; a dict, which is sent as JSON; or a `ModelError`, with which the ask fails.
    """

    def answered(said: Said) -> Answer:
        text = said if isinstance(said, str) else json.dumps(said)
        return {"reply": {"text": text, "finish_reason": "stop", "usage": {"input_tokens": 0, "output_tokens": 0}}}

    return _answering("model", key, replies, answered)


def endpoint(key: str, replies: Replies) -> AbstractContextManager[list[Request]]:
    """Like `model`, for a reward server. A reply is a number; or a dict with `reward` and optionally `metadata`."""

    def answered(said: Said) -> Answer:
        return {"reply": said if isinstance(said, dict) else {"reward": float(said)}}  # type: ignore[arg-type]

    return _answering("endpoint", key, replies, answered)


def grader(key: str, replies: Replies) -> AbstractContextManager[list[Request]]:
    """Like `model`, for another grader of the project. A reply is a number; a dict with `score` and optionally
    `reason`, `values` and `details`; or a `NotApplicable`.
    """

    def answered(said: Said) -> Answer:
        if isinstance(said, NotApplicable):
            return {"reply": {"not_applicable": said.reason}}
        return {"reply": said if isinstance(said, dict) else {"score": float(said)}}  # type: ignore[arg-type]

    return _answering("grader", key, replies, answered)


class _Scripted:
    """Answers the asks for one key. Delegates all others to the enclosing answerer."""

    def __init__(self, kind: str, key: str, replies: Replies, answered: Callable[[Said], Answer]) -> None:
        self.requests: list[Request] = []
        self._kind = kind
        self._key = key
        self._replies = replies
        self._answered = answered
        self._others: Answerer | None = asker_of()

    async def answer(self, request: bytes) -> Answer:
        """See `Answerer`. Raises AssertionError if the script has no reply left."""
        asked: Request = json.loads(request)
        if (asked["ask"], asked["name"]) != (self._kind, self._key):
            if self._others is not None:
                return await self._others.answer(request)
            message = f"the test scripts no {asked['ask']} {asked['name']!r}: write gradebox.testing.{asked['ask']}"
            return {"error": {"kind": "unknown", "message": message}}
        self.requests.append(asked)
        said = self._said(asked)
        if isinstance(said, ModelError):
            reported = {"kind": said.kind, "message": said.message, "retryable": said.retryable, "reply": said.reply}
            return {"error": reported}
        if isinstance(said, Exception) and not isinstance(said, NotApplicable):
            raise said
        return self._answered(said)

    def _said(self, asked: Request) -> Said:
        if callable(self._replies):
            return self._replies(asked)
        if len(self.requests) > len(self._replies):
            raise AssertionError(
                f"the {self._kind} {self._key!r} is asked once more than the {len(self._replies)} times that it has "
                "replies for. A reply that does not fit, such as one that names no option, is asked for again"
            )
        return self._replies[len(self.requests) - 1]

    def remembered(self, name: str) -> tuple[bool, Any]:
        """Return no value: there is only one run."""
        return False, None

    def remember(self, request: bytes) -> None:
        """Do nothing: there is only one run."""


@contextmanager
def _answering(kind: str, key: str, replies: Replies, answered: Callable[[Said], Answer]) -> Iterator[list[Request]]:
    scripted = _Scripted(kind, key, replies, answered)
    with using(scripted):
        yield scripted.requests
