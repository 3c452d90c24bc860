"""Answers are written as few times as can be, and nothing of one is held back for long."""

import asyncio
from asyncio import Transport
from collections.abc import Callable

import pytest

from api.joining import Joining


class Connection(Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "an event loop raises there"
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def written(use: Callable[[Joining, Connection], None]) -> list[bytes]:
    """What reaches the connection by the end of the event loop's next turn."""

    async def run() -> list[bytes]:
        connection = Connection()
        use(Joining(connection, asyncio.get_running_loop()), connection)
        await asyncio.sleep(0)
        return connection.written

    return asyncio.run(run())


def test_head_and_body_are_one_write() -> None:
    def answer(joining: Joining, _: Connection) -> None:
        joining.write(b"head")
        joining.write(b"body")

    assert written(answer) == [b"headbody"]


def test_an_answer_without_a_body_is_written() -> None:
    def answer(joining: Joining, _: Connection) -> None:
        joining.write(b"head")
        joining.write(b"")

    assert written(answer) == [b"head"]


def test_a_head_does_not_wait_for_a_body_that_comes_later() -> None:
    assert written(lambda joining, _: joining.write(b"head")) == [b"head"]


def test_parts_of_a_body_are_written_as_they_come() -> None:
    async def run() -> None:
        connection = Connection()
        joining = Joining(connection, asyncio.get_running_loop())
        joining.write(b"head")
        await asyncio.sleep(0)
        joining.write(b"one")
        joining.write(b"two")
        assert connection.written == [b"head", b"one", b"two"]

    asyncio.run(run())


def test_nothing_is_lost_where_the_connection_is_closed_at_once() -> None:
    def answer(joining: Joining, connection: Connection) -> None:
        joining.write(b"head")
        joining.close()
        assert connection.closed

    assert written(answer) == [b"head"]


def test_a_head_for_a_connection_that_has_closed_is_let_go() -> None:
    def answer(joining: Joining, connection: Connection) -> None:
        joining.write(b"head")
        connection.close()

    assert written(answer) == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_is_held_back_is_not_changed_meanwhile(kind: Callable[[bytes], bytes]) -> None:
    def answer(joining: Joining, _: Connection) -> None:
        data = bytearray(b"head")
        joining.write(data)
        data[:] = b"away"
        joining.write(kind(b"body"))

    assert written(answer) == [b"headbody"]
