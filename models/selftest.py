"""`gradebox selftest`: the suite of hostile graders. Their asks are answered as in the service, but by an echo."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

from gradebox.outcome import Spent
from models.asks.ask_context import AskContext
from models.asks.asker import Asker, done
from models.parse_ask import EndpointRequest, GraderRequest, ModelRequest
from models.replies.answer_json import Answer, failed, replied
from models.scoring.asking_scorer import AskingScorer, Lend
from models.settings import ModelSettings
from sandbox import selftest
from sandbox.grading.grading import Grading

if TYPE_CHECKING:
    from storage.store import Store


class EchoAsker(Asker):
    """Asks no server. A model's reply is the last message it received, so a reply shows which ask it belongs to."""

    def __init__(self) -> None:
        super().__init__(cast("Store", None), ModelSettings())  # an echo needs no store

    def _ask_server(
        self, request: ModelRequest | EndpointRequest, data: bytes, context: AskContext, wanted: Callable[[], bool]
    ) -> Future[Answer]:
        text = request.messages[-1].content if isinstance(request, ModelRequest) else ""
        usage = {"input_tokens": 1, "output_tokens": 1}
        return done(replied({"text": text, "finish_reason": "stop", "usage": usage}, Spent(asks=1)))

    def _ask_grader(
        self, label: str, request: GraderRequest, context: AskContext, wanted: Callable[[], bool]
    ) -> Future[Answer]:
        return done(failed("unknown", f"there is no grader {label!r} here"))


class EchoAnswering:
    """Answers hostile graders. Every name they ask exists, and no server is asked."""

    def missing(self, asks: Sequence[str]) -> str | None:
        """Return None: nothing is missing."""
        return None

    def scorer(self, grading: Grading, asks: Sequence[str]) -> AskingScorer:
        """Return a scorer that uses the given sandbox."""
        return self.batch_scorer(lambda: nullcontext(grading), asks)

    def batch_scorer(self, lend: Lend, asks: Sequence[str]) -> AskingScorer:
        """Return a scorer that acquires a sandbox for each step, as in a batch."""
        return AskingScorer(lend, EchoAsker(), AskContext("", "hostile", "hostile@1", asks=dict.fromkeys(asks, "")))


if __name__ == "__main__":
    sys.exit(selftest.main(EchoAnswering()))
