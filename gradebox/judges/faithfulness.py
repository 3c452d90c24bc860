"""A judge of the share of a completion that its context supports."""

from typing import Any

from gradebox.asks.schema import object_of
from gradebox.judges import claim_prompts as prompts
from gradebox.judges import fields
from gradebox.judges.bounded_details import bounded
from gradebox.judges.documents import DocumentsJudge, context_of
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread, completion_of

MOST_CLAIMS = 100
_CLAIMS = object_of({"claims": {"type": "array", "items": {"type": "string"}, "maxItems": MOST_CLAIMS}})
_VERDICT = object_of({"reason": {"type": "string"}, "supported": {"type": "boolean"}})


class Faithfulness(DocumentsJudge):
    """Asks a model for the claims of a completion, and which of them its context supports: `await judge(thread)`.

    The score is the share of supported claims; each claim is in `details` with its verdict. Create it at module level.
    Without a field of documents, the turns before the last question, without system turns, are context too.
    """

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread.

        Raises:
            NotApplicable: there is no context, or the completion makes no claim.
            ModelError: the reply with the claims or the verdicts is missing or invalid, or there are more than 100
                claims.
            ValueError: the thread does not end with an assistant turn, or its documents are invalid.
        """
        completion, context = completion_of(thread), context_of(thread, self._documents)
        if not context:
            raise NotApplicable("no documents and no turns before the question: there is no context to be faithful to")
        claims = await self._claims(completion, fields.question_of(thread)) if completion.strip() else []
        if not claims:
            raise NotApplicable("the completion makes no claim")
        verdicts = await self._verdicts(claims, context)
        found = [
            {"text": claim, "supported": verdict["supported"], "reason": verdict["reason"]}
            for claim, verdict in zip(claims, verdicts, strict=True)
        ]
        supported = sum(verdict["supported"] for verdict in verdicts)
        reason = f"{supported} of {len(claims)} claims are supported by the context"
        return Score(supported / len(claims), reason, details=bounded({"claims": found}))

    async def _claims(self, completion: str, question: str | None) -> list[str]:
        asked = prompts.messages(prompts.claims(completion, question))
        reply = await self._model.chat(asked, _CLAIMS, **self._options)
        return [claim for claim in reply.data["claims"] if claim.strip()]

    async def _verdicts(self, claims: list[str], context: dict[str, str]) -> list[dict[str, Any]]:
        """One verdict for each claim, by its number: a reply with more or fewer verdicts is invalid."""
        numbers = [str(number) for number in range(1, len(claims) + 1)]
        schema = object_of(dict.fromkeys(numbers, _VERDICT))
        reply = await self._model.chat(prompts.messages(prompts.verdicts(claims, context)), schema, **self._options)
        return [reply.data[number] for number in numbers]
