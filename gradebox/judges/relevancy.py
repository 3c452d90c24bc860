"""Judges of the share of retrieved documents, or of an answer's statements, that help with a question."""

from functools import partial
from typing import Any

from gradebox.asks.asking import MOST_ASKS
from gradebox.asks.model import Model
from gradebox.asks.schema import object_of
from gradebox.judges import claim_prompts as prompts
from gradebox.judges import fields
from gradebox.judges.bounded_details import bounded
from gradebox.judges.documents import DocumentsJudge, documents_of
from gradebox.judges.together import together
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread, completion_of

MOST_STATEMENTS = 100
_RELEVANT = {"reason": {"type": "string"}, "relevant": {"type": "boolean"}}
_DOCUMENT = object_of(_RELEVANT)
_STATEMENT = object_of({"text": {"type": "string"}, **_RELEVANT})
_STATEMENTS = object_of(
    {"statements": {"type": "array", "items": _STATEMENT, "minItems": 1, "maxItems": MOST_STATEMENTS}}
)


class ContextRelevancy(DocumentsJudge):
    """Asks a model for each document whether it helps with the question: `await judge(thread)`. Create it at module
    level.

    The score is the share of helpful documents; each document is in `details` with its verdict.
    """

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread.

        Raises:
            NotApplicable: the thread has no documents.
            ModelError: there is no verdict on one of them.
            ValueError: the thread has no user turn, its documents are invalid, or there are more than 64.
        """
        documents = documents_of(thread, self._documents)
        if not documents:
            raise NotApplicable("no documents")
        if len(documents) > MOST_ASKS:
            raise ValueError(
                f"the thread has {len(documents)} documents, and {MOST_ASKS} can be asked about: send fewer"
            )
        question = _question(thread)
        verdicts = await together([partial(self._verdict, question, document) for document in documents])
        found = [{"text": document, **verdict} for document, verdict in zip(documents, verdicts, strict=True)]
        return _share(found, "documents")

    async def _verdict(self, question: str, document: str) -> dict[str, Any]:
        asked = prompts.messages(prompts.document(question, document))
        data = (await self._model.chat(asked, _DOCUMENT, **self._options)).data
        return {"relevant": data["relevant"], "reason": data["reason"]}


class AnswerRelevancy:
    """Asks a model for the statements of a completion, and which help with the question: `await judge(thread)`.

    The score is the share of helpful statements; each statement is in `details` with its verdict. Create it at module
    level.
    """

    def __init__(
        self,
        model: str,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Make a judge.

        Args:
            model: the model's key in the project.
            temperature: sampling temperature; None for the model's default. The same holds for the next two.
            max_tokens: maximum number of tokens of a reply.
            seed: random seed, for servers that support it.

        Raises:
            ValueError: a setting is invalid; the message names it.
        """
        self._model = Model(model)
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread.

        Raises:
            ModelError: the model finds no statement, finds more than 100, or gives no valid reply.
            ValueError: the thread has no user turn, or the completion is missing or empty.
        """
        completion, question = completion_of(thread), _question(thread)
        if not completion.strip():
            raise ValueError("the completion is empty, so it has no statement whose relevance could be judged")
        asked = prompts.messages(prompts.statements(question, completion))
        found = (await self._model.chat(asked, _STATEMENTS, **self._options)).data["statements"]
        return _share([{name: one[name] for name in ("text", "relevant", "reason")} for one in found], "statements")

    def __repr__(self) -> str:
        return f"AnswerRelevancy(model={self._model.key!r})"


def _question(thread: StringThread) -> str:
    question = fields.question_of(thread)
    if question is None:
        raise ValueError("the thread has no turn of the user, so there is no question that anything could help with")
    return question


def _share(found: list[dict[str, Any]], what: str) -> Score:
    relevant = sum(one["relevant"] for one in found)
    reason = f"{relevant} of {len(found)} {what} help with the question"
    return Score(relevant / len(found), reason, details=bounded({what: found}))
