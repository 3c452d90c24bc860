"""`gradebox selftest`: the hostile suite, in which graders that ask are answered as in the service, by an echo."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

from gradebox.outcome import Spent
from models.answers import Answer, failed, replied
from models.asker import Asker, Who
from models.asking_scorer import AskingScorer, Lend
from models.requests import EndpointRequest, GraderRequest, ModelRequest
from models.settings import ModelSettings
from sandbox import selftest
from sandbox.grading import Grading

if TYPE_CHECKING:
    from storage.store import Store


class EchoAsker(Asker):
    """Asks no server. A model replies with what it was told last, so a reply tells whose it is."""

    def __init__(self) -> None:
        super().__init__(cast("Store", None), ModelSettings())  # what is echoed needs no store

    def _ask_server(
        self, request: ModelRequest | EndpointRequest, data: bytes, who: Who, wanted: Callable[[], bool]
    ) -> Future[Answer]:
        text = request.messages[-1].content if isinstance(request, ModelRequest) else ""
        usage = {"input_tokens": 1, "output_tokens": 1}
        return _done(replied({"text": text, "finish_reason": "stop", "usage": usage}, Spent(asks=1)))

    def _ask_grader(self, label: str, request: GraderRequest, who: Who, wanted: Callable[[], bool]) -> Future[Answer]:
        return _done(failed("unknown", f"there is no grader {label!r} here"))


def _done(answer: Answer) -> Future[Answer]:
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future


class EchoAnswering:
    """Answers hostile graders. It has whatever they name, and no server is asked."""

    def missing(self, asks: Sequence[str]) -> str | None:
        """Nothing is."""
        return None

    def scorer(self, grading: Grading, asks: Sequence[str]) -> AskingScorer:
        """Scores with a sandbox that is held."""
        return self.batch_scorer(lambda: nullcontext(grading), asks)

    def batch_scorer(self, lend: Lend, asks: Sequence[str]) -> AskingScorer:
        """Scores as a batch does: a sandbox is lent for each step."""
        return AskingScorer(lend, EchoAsker(), Who("", "hostile", "hostile@1", asks=dict.fromkeys(asks, "")))


if __name__ == "__main__":
    sys.exit(selftest.main(EchoAnswering()))
