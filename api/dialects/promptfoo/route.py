"""`/promptfoo/v1/{project}/{grader}`. promptfoo sends no API key header, so the key is the password in the URL."""

import json
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from api.access.callers import Caller
from api.dialects.json_text import is_text, text_of
from api.dialects.message_json import are_messages
from api.dialects.reward.access import Scored, Target
from api.dialects.score_one import score_one
from api.http.problems import invalid
from api.http.query import known_alone
from api.intake import bodies
from api.intake.batch_upload import named
from api.services import Served, Services

THRESHOLD = 0.5
_CHAT_BYTES = 1_000_000  # of a prompt that is parsed
_NULL = msgspec.Raw(b"null")

router = APIRouter(prefix="/promptfoo/v1", include_in_schema=False)


class Context(msgspec.Struct):
    """The test case: its prompt as it was sent, and its variables."""

    prompt: msgspec.Raw = _NULL
    vars: msgspec.Raw = msgspec.Raw(b"{}")


class Webhook(msgspec.Struct):
    """The request of an assertion of type `webhook`. The parts that a tenant writes are passed on unparsed."""

    output: msgspec.Raw
    context: msgspec.Raw = msgspec.Raw(b"{}")


class AssertionResult(msgspec.Struct):
    """The result of the assertion."""

    pass_: bool = msgspec.field(name="pass")
    score: float
    reason: str


@router.post("/{project}/{key}", dependencies=[Depends(known_alone)])
async def webhook(
    request: Request,
    services: Served,
    target: Scored,
    threshold: Annotated[float, Query(allow_inf_nan=False)] = THRESHOLD,
) -> Response:
    """Check whether the score of an output reaches the threshold. promptfoo treats every error as a score of 0."""
    body = await bodies.read(request, services.limits_for(request).score_bytes)
    answer = await services.grade(request, target.project, _score, services, target, body, threshold)
    return Response(answer, media_type="application/json")


def _score(caller: Caller, services: Services, target: Target, body: bytes, threshold: float) -> bytes:
    line = bodies.line_of(_thread(bodies.parse(body, Webhook)), services.line_bytes)
    outcome = score_one(caller, services, named(target.key), line)
    assert outcome.score is not None
    reason = outcome.reason or f"{outcome.grader} gave {outcome.score}, the threshold is {threshold}"
    return msgspec.json.encode(AssertionResult(outcome.score >= threshold, outcome.score, reason))


def _thread(sent: Webhook) -> bytes:
    """Builds the thread. The variables are its metadata. An output that is not a text becomes the text of its JSON."""
    context = bodies.parse(bytes(sent.context), Context)
    output, variables = bytes(sent.output), bytes(context.vars)
    if output == b"null":
        raise invalid("`output` is null: there is nothing to score")
    metadata = b"{}" if variables == b"null" else variables
    try:
        completion, prompt = text_of(output), _prompt(bytes(context.prompt))
    except UnicodeDecodeError as error:
        raise invalid("the output is not UTF-8") from error
    return b'{"prompt":%b,"completion":%b,"metadata":%b}' % (prompt, completion, metadata)


def _prompt(sent: bytes) -> bytes:
    """Returns a chat prompt, a JSON text with a list of messages, as that list; any other prompt as it was sent."""
    if not is_text(sent) or len(sent) > _CHAT_BYTES:
        return sent
    text = json.loads(sent).encode("utf-8", "surrogatepass")
    return text if are_messages(text) else sent
