"""The asks of one run: those whose answers are known, and those that wait."""

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from gradebox.asks.asking import MOST_ASKS, Answer, Pause, note_used
from gradebox.asks.errors import ModelError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future


class WaitsForAnswers(BaseException):
    """Ends a run for now, because it waits for nothing but answers."""


class Replay:
    """Replays known answers. Each belongs to a request and its position among identical requests: first, second, …"""

    def __init__(self, answers: bytes) -> None:
        """`answers` is a JSON list of pairs, the digest of a request and its answer, in the order of the asks.

        The pair of a kept value is an empty digest and the request that kept the value.
        """
        self._known: dict[str, list[Answer]] = {}
        for digest, answer in json.loads(answers) if answers != b"[]" else ():
            self._known.setdefault(digest or answer["name"], []).append(answer)
        self._made = 0
        self._held: list[tuple[Future[Answer], Answer]] = []
        self.loop: AbstractEventLoop | None = None  # that of the run, if it has one
        self.requests: list[bytes] = []
        self.waiting = 0  # asks without a known answer that the grader waits for

    @property
    def is_used_up(self) -> bool:
        """Whether this run has used all known answers and values."""
        return not any(self._known.values())

    @property
    def is_asking(self) -> bool:
        """Whether an ask has not returned."""
        return bool(self.waiting or self._held)

    async def answer(self, request: bytes) -> Answer:
        """Returns a known answer when the grader waits for nothing else; waits for another until this run is ended."""
        self._count()
        self._check_loop()
        if self._known and (known := self._known.get(digest := sha256(request).hexdigest())):
            note_used(digest)
            return await self._held_until_idle(known.pop(0))
        self.requests.append(request)
        self.waiting += 1
        try:
            if self.loop is None:
                await Pause()
            from asyncio import get_running_loop

            found: Answer = await get_running_loop().create_future()
        finally:
            self.waiting -= 1
        return found

    def deliver(self) -> bool:
        """Lets the asks with a known answer return. Returns false if there are none, or an ask has no answer yet."""
        if self.waiting or not self._held:
            return False
        held, self._held = self._held, []
        for future, answer in held:
            if not future.done():  # it is if the ask was cancelled
                future.set_result(answer)
        return True

    async def _held_until_idle(self, answer: Answer) -> Answer:
        if self.loop is None:
            await Pause()
            return answer
        from asyncio import get_running_loop

        future: Future[Answer] = get_running_loop().create_future()
        self._held.append((future, answer))
        return await future

    def remembered(self, name: str) -> tuple[bool, Any]:
        """Whether an earlier run has kept a value of this name that this run has not used yet, and the value. With it,
        the answers count as used that led to it.
        """
        self._count()
        known = self._known.get(name)
        if not known:
            return False, None
        kept = known.pop(0)
        led_to_it = kept.get("used", ())  # a run that began before an upgrade has none
        note_used(name, *led_to_it)
        for used in led_to_it:
            if self._known.get(used):
                self._known[used].pop(0)
        return True, kept["value"]

    def remember(self, request: bytes) -> None:
        """Keeps a value for later runs."""
        self.requests.append(request)

    def _check_loop(self) -> None:
        """Raises RuntimeError in another event loop, such as that of `asyncio.run` in a thread: whether that one waits
        only for answers is not seen, so the run would not end.
        """
        if self.loop is None:
            return
        from asyncio import get_running_loop

        if get_running_loop() is not self.loop:
            raise RuntimeError(
                "a model, an endpoint or a grader is asked in an event loop of its own, as by `asyncio.run` in a "
                "thread: await it in `grade` itself"
            )

    def _count(self) -> None:
        self._made += 1
        if self._made > MOST_ASKS:
            raise ModelError("too_much", f"`grade` asked more than {MOST_ASKS} times for one completion: ask less")
