from collections.abc import Callable

import pytest

from gradebox.client.batch_watch import ANSWER_S, UNSEEN_S, BatchWatch
from gradebox.errors import BatchFailed, ConnectionFailed, WaitTimeout
from gradebox.schemas import AwaitedServer, Batch, BatchGrader, BatchState
from tests.gradebox.making import batch


def pause(watch: BatchWatch, state: Batch) -> float:
    seconds = watch.observe(state)
    assert seconds is not None
    return seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("gradebox.client.batch_watch.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("progress", "seconds"), [(True, ANSWER_S), (False, UNSEEN_S)])
def test_an_answer_may_wait_for_the_end_but_not_so_long_that_nothing_is_seen_to_move(
    progress: bool, seconds: float
) -> None:
    with BatchWatch(batch(0), progress=progress, timeout=None) as watch:
        assert pause(watch, batch(0, "queued")) == seconds


def test_a_finished_batch_is_waited_for_no_more() -> None:
    with BatchWatch(batch(0), progress=False, timeout=None) as watch:
        assert watch.observe(batch(1_000, "finished")) is None


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_a_batch_that_ends_without_its_outcomes_is_an_error(state: BatchState) -> None:
    with (
        BatchWatch(batch(0), progress=False, timeout=None) as watch,
        pytest.raises(BatchFailed, match=r"7 of 1000 outcomes. They can be read: batch.outcomes\(\)") as raised,
    ):
        watch.observe(batch(7, state))
    assert raised.value.batch.state == state


def test_waiting_has_the_end_that_was_asked_for(clock: list[float]) -> None:
    with BatchWatch(batch(0), progress=False, timeout=2.0) as watch:
        clock[0] += 1.9
        assert pause(watch, batch(1)) == pytest.approx(0.1)
        clock[0] += 0.5
        with pytest.raises(WaitTimeout, match="within 2 s: 1 of 1000"):
            watch.observe(batch(1))
    assert issubclass(WaitTimeout, TimeoutError)


@pytest.mark.parametrize(("terminal", "term"), [("0", "xterm"), ("1", "dumb")])
def test_where_no_bar_can_move_a_line_now_and_then_is_shown(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: str, term: str
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", terminal)
    monkeypatch.setenv("TERM", term)
    with BatchWatch(batch(0), progress=True, timeout=None) as watch:
        for _ in range(100):
            clock[0] += 0.25
            watch.observe(batch(10))
        watch.observe(batch(1_000, "finished", crash=2))

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0] == "exact-match: 10 of 1,000, 1/s"
    assert lines[1] == "exact-match: 10 of 1,000, 0.5/s"
    assert lines[2] == "exact-match: 1,000 of 1,000, 40/s, 2 errors"


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def shown(
    request: pytest.FixtureRequest,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., str]:
    """What is shown of a batch with these changes, in a terminal and elsewhere."""
    monkeypatch.setenv("TTY_COMPATIBLE", str(int(request.param)))
    monkeypatch.setenv("COLUMNS", "160")

    def show(state: Batch, **changes: object) -> str:
        with BatchWatch(batch(0), progress=True, timeout=None) as watch:
            clock[0] += 11
            watch.observe(state.model_copy(update=changes))
        return capsys.readouterr().err

    return show


def test_the_words_of_a_server_move_no_cursor(shown: Callable[..., str]) -> None:
    told = shown(batch(1_000, "finished"), trouble="it said \x1b[2J\u202e")
    assert "it said \\x1b[2J\\u202e" in told
    assert "\x1b[2J" not in told


def test_what_is_not_applicable_is_no_error(shown: Callable[..., str]) -> None:
    told = shown(batch(1_000, "finished"), scored=600, not_applicable=400)
    assert "400 not applicable" in told
    assert "error" not in told


def test_a_batch_says_what_it_waits_for(shown: Callable[..., str]) -> None:
    server = AwaitedServer(asked="model:small-judge", kind="unreachable", seconds=40)
    assert "waits: model small-judge has not answered for 40 s" in shown(batch(10), waits_for=[server])


def test_a_narrow_terminal_cuts_no_number_and_no_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    graders = [BatchGrader(key=key, version=1) for key in ("exact-match", "short-enough", "polite-judge")]
    server = AwaitedServer(asked="model:small-judge", kind="unreachable", seconds=40)
    changes = {"graders": graders, "waits_for": [server], "not_applicable": 17}
    with BatchWatch(batch(0), progress=True, timeout=None) as watch:
        watch.observe(batch(131, exception=123).model_copy(update=changes))
    shown = capsys.readouterr().err
    for whole in ("131/1000", "123 errors", "17 not applicable", "waits: model small-judge has not answered for 40 s"):
        assert whole in shown


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with BatchWatch(batch(0), progress=True, timeout=None) as watch:
        watch.observe(batch(1_000, "finished", timeout=1))
        print("to a file")

    printed, shown = capsys.readouterr()
    assert "1000/1000" in shown
    assert "1 error" in shown
    assert printed == "to a file\n"


@pytest.mark.parametrize("ends", [KeyboardInterrupt(), ConnectionFailed("no service answers")])
def test_an_interrupted_wait_says_how_to_take_the_batch_up_again(ends: BaseException) -> None:
    with pytest.raises(type(ends)) as raised, BatchWatch(batch(0), progress=False, timeout=None):
        raise ends
    assert "client.batches.get('b1')" in raised.value.__notes__[0]


def test_a_service_that_is_away_at_the_end_of_the_wait_is_a_timeout(clock: list[float]) -> None:
    with (
        pytest.raises(WaitTimeout, match="within 20 s: 7 of 1000"),
        BatchWatch(batch(0), progress=False, timeout=20.0) as watch,
    ):
        watch.observe(batch(7))
        clock[0] += 19.5
        assert watch.left_s == 0.5
        clock[0] += 0.5
        raise ConnectionFailed("no service answers")


def test_a_batch_that_was_over_before_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    over = batch(1_000, "finished")
    with BatchWatch(over, progress=True, timeout=None) as watch:
        watch.observe(over)
    assert capsys.readouterr().err == "exact-match: 1,000 of 1,000\n"
