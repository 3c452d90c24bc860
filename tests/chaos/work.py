"""Batches with known outcomes: each score is a function of the thread."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from gradebox.client import BatchHandle, Client
from gradebox.errors import ApiError, Conflict, ConnectionFailed
from gradebox.outcome import Outcome
from gradebox.schemas import Isolation

RIGHT = "(int(thread.completion()) * thread.metadata['salt']) % 1009 / 1009"
STUCK = f"""import time
async def grade(thread):
    time.sleep(3 * (int(thread.completion()) % 200 == 0))
    return {RIGHT}
"""
GRADERS = {
    "fast": f"async def grade(thread):\n    return {RIGHT}\n",
    "slow": f"import time\nasync def grade(thread):\n    time.sleep(0.004)\n    return {RIGHT}\n",
    # A chunk takes longer than its slice, and than a stop may take, so its finished part is kept.
    "stuck": STUCK,
    "forked": f"async def grade(thread):\n    return {RIGHT}\n",
    "picky": f"async def grade(thread):\n    assert int(thread.completion()) % 50 != 7\n    return {RIGHT}\n",
}
MIXES = (("slow",), ("fast", "picky"), ("forked",), ("slow", "fast"), ("stuck",))
ASK_S = 180.0

Said = tuple[str | int | None, str, float | None, str | None]
"""The thread's id, the grader, the score and the kind of error of an outcome."""


@dataclass
class Work:
    """One batch. `size` is unique, so that the batch can be found if the answer to its upload was lost."""

    number: int
    size: int
    salt: int
    graders: tuple[str, ...]
    handle: BatchHandle
    read: list[Said] = field(default_factory=list)
    """Outcomes read so far; they must not change."""

    def expected(self) -> Iterator[Said]:
        for number in range(self.size):
            for grader in self.graders:
                wrong = grader == "picky" and number % 50 == 7
                score = None if wrong else number * self.salt % 1009 / 1009
                yield (f"{self.number}-{number}", f"{grader}@1", score, "exception" if wrong else None)

    def peek(self) -> None:
        """Reads the outcomes so far, and compares them with those read before."""
        found = said(self.handle.outcomes())
        known = min(len(found), len(self.read))
        assert found[:known] == self.read[:known], f"outcomes of {self.handle.id} changed after they were read"
        self.read = max(found, self.read, key=len)


def said(outcomes: Iterator[Outcome]) -> list[Said]:
    return [(one.id, one.grader, one.score, one.error.kind if one.error else None) for one in outcomes]


def create_graders(client: Client) -> None:
    threads = [{"completion": "1", "metadata": {"salt": 3}}]
    for key, source in GRADERS.items():
        with suppress(Conflict):  # the data folder was used before
            isolation: Isolation = "completion" if key == "forked" else "batch"
            client.graders.create.function(key=key, fn=source, isolation=isolation, threads=threads)


def submit(client: Client, chance: random.Random, number: int, size: int, revive: Callable[[], None]) -> Work:
    """Uploads a batch. If no answer comes, looks for the batch on the service before it uploads again.

    `revive` starts a service that was killed.
    """
    salt, graders = chance.randrange(1, 1009), chance.choice(MIXES)
    threads = [{"id": f"{number}-{n}", "completion": str(n), "metadata": {"salt": salt}} for n in range(size)]
    ends = time.monotonic() + ASK_S
    while True:
        try:
            handle = _find(client, size) or client.batches.create(list(graders), threads)
            return Work(number, size, salt, graders, handle)
        except (ConnectionFailed, ApiError) as error:
            assert time.monotonic() < ends and not (isinstance(error, ApiError) and error.status < 429), error
            revive()
            time.sleep(0.2)


def _find(client: Client, size: int) -> BatchHandle | None:
    found = [batch for batch in client.batches.list(200) if batch.threads == size]
    assert len(found) <= 1, f"one upload became {len(found)} batches"
    return client.batches.get(found[0].id) if found else None
