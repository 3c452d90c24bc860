"""Judges of how much of what was retrieved, and of what was answered, helps with a question."""

from functools import partial
from typing import Any

from gradebox.asks.asking import MOST_ASKS
from gradebox.asks.model import Model
from gradebox.judges import claim_prompts as prompts
from gradebox.judges import fields
from gradebox.judges.bounded import bounded
from gradebox.judges.documents import check_where, documents_of
from gradebox.judges.together import together
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread

MOST_STATEMENTS = 100
_RELEVANT = {"reason": {"type": "string"}, "relevant": {"type": "boolean"}}
_DOCUMENT: dict[str, Any] = {
    "type": "object",
    "properties": _RELEVANT,
    "required": [*_RELEVANT],
    "additionalProperties": False,
}
_STATEMENT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, **_RELEVANT},
    "required": ["text", *_RELEVANT],
    "additionalProperties": False,
}
_STATEMENTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "statements": {"type": "array", "items": _STATEMENT, "minItems": 1, "maxItems": MOST_STATEMENTS},
    },
    "required": ["statements"],
    "additionalProperties": False,
}


class ContextRelevancy:
    """Asks a model of each document whether it helps with the question: `await judge(thread)`. Make it at module level.

    The score is the share of documents that do; each stands in `details` with its verdict.
    """

    def __init__(
        self,
        model: str,
        documents: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """A judge.

        Args:
            model: the model's key in the project.
            documents: the field of the metadata that holds them. None: turns of the role `document`, and
                `metadata.documents`.
            temperature: None for what the model is registered with. So are the two that follow.
            max_tokens: of a reply.
            seed: for servers that take one.

        Raises:
            ValueError: a setting is none; the message says which.
        """
        check_where(documents)
        self._model = Model(model)
        self._documents = documents
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    async def __call__(self, thread: StringThread) -> Score:
        """The score of a thread.

        Raises:
            NotApplicable: the thread has no documents.
            ModelError: there is no verdict on one of them.
            ValueError: nobody asks in the thread, its documents are none, or they are more than 64.
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

    def __repr__(self) -> str:
        return f"ContextRelevancy(model={self._model.key!r})"


class AnswerRelevancy:
    """Asks a model for the statements of a completion, and which help with the question: `await judge(thread)`.

    The score is the share of statements that do; each stands in `details` with its verdict. Make it at module level.
    """

    def __init__(
        self,
        model: str,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """A judge.

        Args:
            model: the model's key in the project.
            temperature: None for what the model is registered with. So are the two that follow.
            max_tokens: of a reply.
            seed: for servers that take one.

        Raises:
            ValueError: a setting is none; the message says which.
        """
        self._model = Model(model)
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    async def __call__(self, thread: StringThread) -> Score:
        """The score of a thread.

        Raises:
            ModelError: the model finds no statement, more than 100, or does not answer as it was asked.
            ValueError: nobody asks in the thread, or the completion is missing or empty.
        """
        completion, question = fields.completion_of(thread), _question(thread)
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
