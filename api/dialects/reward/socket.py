"""Rewards over a websocket: many requests in progress at once, each answered with its id.

RewardClient waits forever for an id that gets no answer, and stops reading at the first frame that is not part of a
response. So every id is answered, also when the service stops, and one without a score as described at `wire.NO_SCORE`.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from anyio import (
    BrokenResourceError,
    CancelScope,
    EndOfStream,
    WouldBlock,
    create_memory_object_stream,
    create_task_group,
)
from anyio.streams.memory import MemoryObjectReceiveStream
from fastapi import WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketDisconnected
from websockets.frames import CloseCode

from api.access.callers import WaitingClient
from api.dialects.reward.access import Target, enter
from api.dialects.reward.wire import NO_SCORE, Request, Response, line_of, response
from api.http.problems import HANDLED, ProblemError, invalid, problem_of
from api.http.request_id import request_id
from api.http.unfinished import STOPPING
from api.http.websocket import STOPS
from api.intake import bodies
from api.routes.score import score_in_time
from api.services import Services

SCORERS = 4
TOGETHER = 8  # requests that a scorer takes at once; four scorers take all that the client has in progress
WAITING = 10_000  # unanswered requests; all input is read, so that a disconnect is noticed
TOGETHER_BYTES = bodies.MIB
CHUNK_CHARACTERS = 10_240
BUSY = 429
LATE = 504  # a call took too long
_OBJECTS_BYTES = 136  # of a waiting request, without the bytes of its line
REASON_BYTES = 123  # the protocol's limit for a close frame

_log = logging.getLogger(__name__)


class AskedThread(NamedTuple):
    """A thread as a line of JSON, and the id of its answer."""

    line: bytes
    id: int

    @property
    def size(self) -> int:
        """The bytes of memory that it takes."""
        return len(self.line) + _OBJECTS_BYTES


def _read(text: str, longest: int) -> AskedThread:
    request = bodies.parse(text.encode(), Request)
    if request.id is None:
        raise invalid("a request over a websocket has an `id`")
    return AskedThread(line_of(request, longest), request.id)


class Conversation:
    """One websocket connection of a client."""

    def __init__(self, socket: WebSocket, services: Services, target: Target) -> None:
        self._socket = socket
        self._services = services
        self._target = target
        self._client = WaitingClient()
        self._unanswered: list[int] = []  # ids
        self._scope = CancelScope()
        self._gave_way = False

    async def serve(self) -> None:
        """Scores requests until the client closes, or sends one that cannot be answered."""
        await self._socket.accept()
        sending, receiving = create_memory_object_stream[AskedThread](WAITING)
        refusal = ""
        async with create_task_group() as group, sending:
            self._scope = group.cancel_scope
            self._wait()
            for _ in range(SCORERS):
                group.start_soon(self._score, receiving.clone())
            receiving.close()
            try:
                while True:
                    asked = await self._next()
                    try:
                        sending.send_nowait(asked)
                    except WouldBlock:
                        await self._refuse(asked)
                    else:
                        self._unanswered.append(asked.id)
                        self._services.connections.work(self._socket.scope)
            except (WebSocketDisconnect, BrokenResourceError):
                self._client.leave()
                group.cancel_scope.cancel()
            except ProblemError as error:
                refusal = error.detail
        if self._gave_way:
            reason = "another connection of the same API key took this one's place"
            await self._socket.close(CloseCode.TRY_AGAIN_LATER, reason)
        elif self._stops:
            await self._stop()
        elif refusal:  # all earlier requests are answered
            reason = refusal.encode()[:REASON_BYTES].decode(errors="ignore")
            await self._socket.close(CloseCode.POLICY_VIOLATION, reason)

    @property
    def _stops(self) -> bool:
        return STOPS in self._socket.scope["state"]

    async def _stop(self) -> None:
        """Answers all that is left and closes, in one piece: after an answer the client would send more."""
        with suppress(WebSocketDisconnect, WebSocketDisconnected):
            for number in self._unanswered:
                await self._send(self._unscored(number, STOPPING))
            await self._socket.close(CloseCode.SERVICE_RESTART, STOPPING.detail)

    async def _refuse(self, asked: AskedThread) -> None:
        self._services.memory.let_go(self._socket.scope, asked.size)
        detail = f"{WAITING} requests of this connection wait for their answers: send fewer ahead"
        await self._send(self._unscored(asked.id, ProblemError(BUSY, "busy", detail)))

    def _wait(self) -> None:
        self._services.connections.wait(self._socket.scope, self._give_way)

    def _give_way(self) -> None:
        self._gave_way = True
        self._scope.cancel()

    async def _next(self) -> AskedThread:
        """Returns the next request. Raises WebSocketDisconnect, and ProblemError for a message without a usable id."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message["code"])
            text = message.get("text") or ""
            asked = await bodies.worked_on(len(text), _read, text, self._services.line_bytes)
            try:
                self._services.memory.hold(self._socket.scope, asked.size)
            except ProblemError as error:
                await self._send(self._unscored(asked.id, error))
            else:
                return asked

    async def _score(self, receiving: MemoryObjectReceiveStream[AskedThread]) -> None:
        """The loop of one scorer. It ends early if the client disconnects."""
        with receiving, suppress(WebSocketDisconnect, WebSocketDisconnected):
            async for first in receiving:
                group = [first, *_waiting(receiving, len(first.line))]
                unanswered, together = group, True
                while unanswered:
                    answers = await self._answers(unanswered if together else unanswered[:1])
                    if self._stops:
                        return
                    for asked, answer in zip(unanswered, answers, strict=False):
                        await self._send(answer)
                        self._unanswered.remove(asked.id)
                    unanswered, together = unanswered[len(answers) :], together and bool(answers)
                self._services.memory.let_go(self._socket.scope, sum(asked.size for asked in group))
                if not self._unanswered:
                    self._wait()

    async def _answers(self, group: Sequence[AskedThread]) -> list[Response]:
        """The answers to the first requests of a group: as many as one call has time for. A single request always gets
        an answer.
        """
        services, target = self._services, self._target
        try:
            await enter(self._socket, services, target.project, "score")  # the key may have been revoked meanwhile
            lines = [one.line for one in group]
            limits = services.limits_for(self._socket)
            _, outcomes = await services.grade_for(
                self._client, target.project, limits, score_in_time, services, target.key, None, lines
            )
            return [response(outcome, asked.id) for outcome, asked in zip(outcomes, group, strict=False)]
        except HANDLED as error:
            if problem_of(error).status == LATE and len(group) > 1:
                return []  # perhaps only one of them is slow: each gets the time of one call
            if problem_of(error).status >= 500:
                _log.error(
                    "request %s failed: a part of the service is unavailable",
                    request_id(self._socket.scope),
                    exc_info=error,
                )
            return [self._unscored(asked.id, error) for asked in group]

    def _unscored(self, number: int, error: Exception) -> Response:
        problem = problem_of(error)
        told = {
            "kind": problem.name,
            "message": problem.detail,
            "retryable": problem.status >= 500 or problem.status == BUSY,
        }
        return Response(NO_SCORE, {"error": told}, number)

    async def _send(self, answer: Response) -> None:
        text = msgspec.json.encode(answer).decode()
        pieces = [text[start : start + CHUNK_CHARACTERS] for start in range(0, len(text), CHUNK_CHARACTERS)]
        await self._socket.send_text(json.dumps({"id": answer.id, "total_num_chunks": len(pieces)}))
        for piece in pieces:
            await self._socket.send_text(json.dumps({"id": answer.id, "chunk": piece}))


def _waiting(receiving: MemoryObjectReceiveStream[AskedThread], size: int) -> Iterator[AskedThread]:
    """Yields further received requests, as many as are scored together with one of this size."""
    for _ in range(TOGETHER - 1):
        if size >= TOGETHER_BYTES:
            return
        try:
            asked = receiving.receive_nowait()
        except (WouldBlock, EndOfStream):
            return
        size += len(asked.line)
        yield asked
