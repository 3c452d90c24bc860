"""`/promptfoo/v1/{project}/{grader}`. promptfoo sends no header: the API key is the password in the URL."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from api.access.callers import Caller
from api.dialects.one_score import score_one
from api.dialects.reward.access import Scored, Target
from api.intake import bodies
from api.services import Served, Services
from gradebox.limits import REQUEST_BYTES

THRESHOLD = 0.5
_CHAT_CHARACTERS = 1_000_000  # of a prompt that is looked into
_MESSAGES = list[dict[str, Any]]

router = APIRouter(prefix="/promptfoo/v1", include_in_schema=False)


class Context(msgspec.Struct):
    """The test case: its prompt as it was sent, and its variables."""

    prompt: str | None = None
    vars: msgspec.Raw = msgspec.Raw(b"{}")


class Webhook(msgspec.Struct):
    """What an assertion of type `webhook` sends. What a tenant wrote is passed on unparsed."""

    output: msgspec.Raw
    context: msgspec.Raw = msgspec.Raw(b"{}")


class Answer(msgspec.Struct):
    """What the assertion is to say."""

    pass_: bool = msgspec.field(name="pass")
    score: float
    reason: str


@router.post("/{project}/{key}")
async def webhook(
    request: Request,
    services: Served,
    target: Scored,
    threshold: Annotated[float, Query(allow_inf_nan=False)] = THRESHOLD,
) -> Response:
    """Whether the score of an output reaches the threshold. promptfoo makes a score of 0 of every error."""
    body = await bodies.read(request, REQUEST_BYTES)
    answer = await services.grade(request, target.project, _score, services, target, body, threshold)
    return Response(answer, media_type="application/json")


def _score(caller: Caller, services: Services, target: Target, body: bytes, threshold: float) -> bytes:
    line = bodies.line_of(_thread(bodies.parse(body, Webhook)), services.line_bytes)
    outcome = score_one(caller, services, target.key, line)
    assert outcome.score is not None
    reason = outcome.reason or f"{outcome.grader} gave {outcome.score:g}, and {threshold:g} is wanted"
    return msgspec.json.encode(Answer(outcome.score >= threshold, outcome.score, reason))


def _thread(sent: Webhook) -> bytes:
    """The variables are the metadata. An output that is no text is the text of its JSON."""
    context = bodies.parse(bytes(sent.context), Context)
    output, variables = bytes(sent.output), bytes(context.vars)
    completion = output if output[:1] == b'"' else msgspec.json.encode(output.decode("utf-8", "replace"))
    metadata = b"{}" if variables == b"null" else variables
    return b'{"prompt":%b,"completion":%b,"metadata":%b}' % (_prompt(context.prompt), completion, metadata)


def _prompt(text: str | None) -> bytes:
    """A prompt for a chat is a text of JSON, a list of messages. YAML's texts are left as they are."""
    try:
        messages = msgspec.json.decode(text if text and len(text) <= _CHAT_CHARACTERS else "", type=_MESSAGES)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return msgspec.json.encode(text)
    is_chat = bool(messages) and all(isinstance(each.get("role"), str) and "content" in each for each in messages)
    return (text or "").encode() if is_chat else msgspec.json.encode(text)
