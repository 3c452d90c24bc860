"""Tests that name look-ups of one project that are never answered do not block those of other projects."""

import asyncio
import threading
from collections.abc import Sequence

from models.servers.client_cache import AddressCache


def test_names_that_are_never_answered_are_those_of_their_own_project() -> None:
    over = threading.Event()

    def find(host: str, port: int) -> Sequence[str]:
        if host.endswith(".slow"):
            over.wait(20)
        return [f"10.0.0.{port}"]

    async def look_up() -> None:
        names = AddressCache(find)
        slow = [asyncio.create_task(names.resolve("one", f"{n}.slow", 1)) for n in range(40)]
        await asyncio.sleep(0.05)
        slow.append(asyncio.create_task(names.resolve("one", "quick", 1)))
        assert await asyncio.wait_for(names.resolve("other", "quick", 1), 5) == ["10.0.0.1"]  # despite slow look-ups
        assert not any(task.done() for task in slow)
        over.set()
        assert await asyncio.gather(*slow) == [["10.0.0.1"]] * 41
        names.close()

    asyncio.run(look_up())


def test_a_name_is_looked_up_once_for_all_that_ask_at_once() -> None:
    found = []

    def find(host: str, port: int) -> Sequence[str]:
        found.append(host)
        return ["10.0.0.1"]

    async def look_up() -> None:
        names = AddressCache(find)
        told = await asyncio.gather(*(names.resolve("one", "x", 1) for _ in range(20)))
        assert told == [["10.0.0.1"]] * 20
        names.close()

    asyncio.run(look_up())
    assert found == ["x"]
