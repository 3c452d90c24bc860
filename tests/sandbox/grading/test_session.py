"""Tests of the host with a guest that an attacker controls: it ends the sandbox, and never waits forever."""

import socket
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from sandbox.errors import InfrastructureError
from sandbox.grader_source import GraderSource
from sandbox.grading import channel
from sandbox.grading import session as module
from sandbox.grading.channel import Ended
from sandbox.grading.session import Session, after, count_lines
from sandbox.guest.protocol.fields import REASON
from sandbox.guest.protocol.frames import (
    CHECK,
    DONE,
    FRAME,
    LOADED,
    MAX_REPLY,
    NOT_LOADED,
    READY,
    RECORDS,
    TAINTED,
    CheckResult,
    pack_check,
    pack_loaded,
)
from sandbox.guest.protocol.grader_limits import COMPLETION
from sandbox.guest.protocol.records import COUNT, MARK, RECORD, SCORED, Records, pack_record, pack_records
from sandbox.limits import limits_of
from sandbox.shared_folders import Seen

SOURCE = GraderSource("async def grade(thread): return 1.0", timeout_s=0.1)
LIMITS = limits_of(SOURCE, load_s=0.1, line_bytes=1000, stdout_bytes=1000)._replace(timeout_ms=100, load_ms=100)


class Stand:
    """Replaces a sandbox. The test acts as the guest."""

    takes_descriptors = True
    pid = 0
    seen = Seen()

    def __init__(self) -> None:
        self.channel, self.guest = socket.socketpair()
        self.memory = 0

    def allow_memory(self, mebibytes: int) -> None:
        self.memory = mebibytes

    def ran_out_of_memory(self) -> bool:
        return False

    def end(self) -> None:
        self.channel.close()
        self.guest.close()


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    for name in ("_READY_S", "_SLACK_S", "_GRACE_S"):
        monkeypatch.setattr(module, name, 0.1)
    monkeypatch.setattr(channel, "_SEND_S", 0.1)
    found = Stand()
    begun = monotonic()
    yield found
    found.end()
    assert monotonic() - begun < 5


def _frame(kind: int, payload: bytes = b"") -> bytes:
    return FRAME.pack(kind, len(payload)) + payload


def _check(number: int, passed: bool = True) -> bytes:
    return _frame(CHECK, pack_check(CheckResult(number, passed, 0, 0, 1, "told", "")))


HELLO = _frame(READY, b"\x05")
CHECKS = b"".join(_check(number) for number in range(4))
READY_TO_GRADE = HELLO + CHECKS + _frame(LOADED, bytes([COMPLETION]) + pack_loaded(["model:judge"], b"warned\n"))
HEAD = pack_record(SCORED, 1, 1.0, [])
ONE = pack_records(Records(HEAD, b""))
SAYING = pack_record(SCORED, 1, 1.0, [(REASON, b"good")])


def _records(number: int, heads: bytes, bodies: bytes = b"") -> bytes:
    return _frame(RECORDS, COUNT.pack(number) + heads + bodies)


def _loaded(stand: Stand) -> Session:
    session = Session(stand)
    stand.guest.sendall(READY_TO_GRADE)
    session.load(SOURCE, LIMITS)
    return session


def test_a_guest_that_keeps_to_the_rules(stand: Stand) -> None:
    session = _loaded(stand)
    assert session.landlock_abi == 5
    assert session.loaded is not None
    assert (session.loaded.isolation, session.loaded.warnings) == ("completion", ["warned"])
    assert session.loaded.asks == ("model:judge",)
    assert stand.memory > SOURCE.memory_mb
    saying = Records(HEAD + SAYING[: RECORD.size], SAYING[RECORD.size :])
    stand.guest.sendall(_frame(RECORDS, ONE) + _frame(RECORDS, pack_records(saying)) + _frame(DONE) + _frame(DONE))
    assert list(session.grade(b"{}\n{}\n{}\n", 3)) == [Records(HEAD, b""), saying]
    session.reset()
    session.settle()
    session.end()


FAILED = _check(0, passed=False) + _frame(NOT_LOADED)


def test_a_failed_check_is_told(stand: Stand) -> None:
    stand.guest.sendall(HELLO + FAILED)
    loaded = Session(stand).load(SOURCE, LIMITS)
    assert loaded.isolation is None
    assert [check.passed for check in loaded.checks] == [False]


@pytest.mark.parametrize("said", [b"", HELLO[:3], CHECKS, _frame(DONE), FRAME.pack(READY, 2**32 - 1), b"garbage " * 9])
@pytest.mark.parametrize("closes", [True, False])
def test_a_guest_that_does_not_start(stand: Stand, said: bytes, closes: bool) -> None:
    stand.guest.sendall(said)
    if closes:
        stand.guest.shutdown(socket.SHUT_WR)
    with pytest.raises(InfrastructureError, match="a sandbox did not start"):
        Session(stand).await_ready()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"", "did not answer in time"),
        (CHECKS, "did not answer in time"),
        (CHECKS + _check(0), "the guest sent a message of kind 17 while it loaded"),
        (_frame(99), "the guest sent a message of kind 99 while it loaded"),
        (_frame(RECORDS, ONE), "the guest sent a message of kind 20 while it loaded"),
        (_frame(LOADED), "are inconsistent"),
        (_frame(NOT_LOADED), "are inconsistent"),
        (CHECKS + _frame(NOT_LOADED), "are inconsistent"),
        (_check(0) + _frame(LOADED), "are inconsistent"),
        (_check(1, passed=False) + _frame(NOT_LOADED), "are inconsistent"),
        (_check(0) * 4 + _frame(LOADED), "are inconsistent"),
        (_check(0, passed=False) + _frame(LOADED), "are inconsistent"),
        (_frame(CHECK, b"x"), "a check without a head"),
        (_frame(CHECK, b"\xff" * 40), "do not add up"),
        (_frame(TAINTED, b"\xff no"), "the guest gave up: \ufffd no"),
        (FRAME.pack(CHECK, MAX_REPLY + 1), f"a frame of {MAX_REPLY + 1} bytes"),
        (FRAME.pack(CHECK, MAX_REPLY) + b"x", "did not answer in time"),
    ],
)
def test_a_guest_that_lies_about_the_checks(stand: Stand, said: bytes, message: str) -> None:
    stand.guest.sendall(HELLO + said)
    with pytest.raises(Ended, match=message) as raised:
        Session(stand).load(SOURCE, LIMITS)
    assert raised.value.overdue == ("in time" in message)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (bytes([COMPLETION]), "does not add up"),
        (bytes([COMPLETION]) + b"\xff\xffmodel:judge", "does not add up"),
        (bytes([COMPLETION]) + pack_loaded(["secret:key"], b""), "cannot make"),
        (bytes([COMPLETION]) + pack_loaded([f"model:{n}" for n in range(33)], b""), "cannot make"),
        (bytes([COMPLETION]) + pack_loaded(["model:" + "x" * 129], b""), "cannot make"),
    ],
)
def test_a_grader_whose_names_are_none_is_refused(stand: Stand, told: bytes, message: str) -> None:
    """The module body can forge the names. This fails its grader, but does not end the sandbox."""
    stand.guest.sendall(HELLO + CHECKS + _frame(LOADED, told))
    loaded = Session(stand).load(SOURCE, LIMITS)
    assert loaded.isolation is None
    assert [check.passed for check in loaded.checks] == [True, True, True, False]
    assert message in loaded.checks[-1].message


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"", "did not answer in time"),
        (_frame(DONE), "reported 0 outcomes for 2 threads"),
        (_frame(RECORDS, ONE) + _frame(DONE), "reported 1 outcomes for 2 threads"),
        (_records(3, HEAD * 3), "reported 3 outcomes for 2 threads"),
        (_records(0, b""), "reported 0 outcomes for 2 threads"),
        (_records(2, HEAD * 2 + HEAD[:5]), "lengths do not add up"),
        (_records(2, HEAD), "lengths do not add up"),
        (_records(2**32 - 1, HEAD * 2), "lengths do not add up"),
        (_records(1, SAYING[:-1]), "lengths do not add up"),
        (_records(1, SAYING + b"x"), "lengths do not add up"),
        (_records(2, SAYING), "lengths do not add up"),
        (_frame(RECORDS, ONE) * 1000, "reported 3 outcomes for 2 threads"),
        (_frame(RECORDS) * 1000, "without their number"),
        (_records(2, b"\0" * 40), "no record"),
        (_records(1, RECORD.pack(1, 1.0, 2**32 - 1, MARK | SCORED)), "lengths do not add up"),
        (_records(1, RECORD.pack(1, 1.0, 100, MARK | SCORED)) + _frame(DONE), "lengths do not add up"),
        (_frame(RECORDS, ONE) + _frame(CHECK, b"x"), "the guest sent a message of kind 17 while it graded: b'x'"),
        (_frame(255), "the guest sent a message of kind 255 while it graded"),
        (_frame(TAINTED), "the guest gave up"),
        (FRAME.pack(RECORDS, 2**32 - 1), "a frame of 4294967295 bytes"),
        (FRAME.pack(RECORDS, 40) + ONE, "did not answer in time"),
    ],
)
def test_a_guest_that_lies_about_the_outcomes(stand: Stand, said: bytes, message: str) -> None:
    session = _loaded(stand)
    stand.guest.sendall(said)
    with pytest.raises(Ended, match=message) as raised:
        list(session.grade(b"{}\n{}\n", 2))
    assert raised.value.overdue == ("in time" in message)


def test_what_came_before_the_lie_counts(stand: Stand) -> None:
    session = _loaded(stand)
    stand.guest.sendall(_frame(RECORDS, ONE) + _frame(99))
    outcomes = session.grade(b"{}\n{}\n", 2)
    assert next(outcomes) == Records(HEAD, b"")
    with pytest.raises(Ended):
        next(outcomes)


def test_a_guest_that_goes(stand: Stand) -> None:
    session = _loaded(stand)
    stand.guest.close()
    with pytest.raises(Ended, match="the sandbox"):
        list(session.grade(b"{}\n", 1))
    with pytest.raises(Ended, match="the sandbox accepts no data"):
        session.reset()


def test_a_guest_that_does_not_listen(stand: Stand) -> None:
    session = _loaded(stand)
    with pytest.raises(Ended, match="accepts no data"):
        list(session.grade(b"x" * (5 << 20), 1))


@pytest.mark.parametrize(
    ("said", "message"),
    [(b"", "in time"), (_frame(RECORDS, ONE), "reset"), (_frame(TAINTED, b"files"), "gave up: files")],
)
def test_a_guest_that_cannot_be_reset(stand: Stand, said: bytes, message: str) -> None:
    session = _loaded(stand)
    session.reset()
    stand.guest.sendall(said)
    with pytest.raises(Ended, match=message):
        session.settle()


def test_a_guest_that_drips(stand: Stand) -> None:
    """A frame has one deadline, for any number of pieces."""
    session = _loaded(stand)
    session.reset()
    stop = threading.Event()

    def drip() -> None:
        for byte in FRAME.pack(DONE, 1000) + bytes(1000):
            if stop.wait(0.02):
                return
            stand.guest.send(bytes([byte]))

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        with pytest.raises(Ended, match="in time"):
            session.settle()
    finally:
        stop.set()
        dripping.join()


@pytest.mark.parametrize(("payload", "lines"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2)])
def test_lines_are_counted_as_the_guest_does(payload: bytes, lines: int) -> None:
    assert count_lines(payload) == lines


def test_what_follows_some_lines() -> None:
    assert [after(b"a\nb\nc", lines) for lines in range(3)] == [b"a\nb\nc", b"b\nc", b"c"]
