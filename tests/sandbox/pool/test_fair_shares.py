"""Tests that projects share places: none has all, and waiting projects take turns."""

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import Busy
from sandbox.pool import fair_shares
from sandbox.pool.fair_shares import Shares


def asked(shares: Shares, project: str, times: int, granted: list[str]) -> None:
    for _ in range(times):
        shares.ask(project, lambda: granted.append(project))


def test_a_newcomer_finds_room_at_once_also_the_second_one() -> None:
    shares, granted = Shares(16, "sandboxes"), list[str]()
    for project in "abc":
        asked(shares, project, 40, granted)
    assert Counter(granted) == {"a": 8, "b": 6, "c": 2}
    for _ in range(8):
        shares.leave("a")
    assert Counter(granted)["c"] == 4  # "a" waits although places are free: they are kept for newcomers
    assert sum(shares._held.values()) == 14


@pytest.mark.parametrize(("most", "share"), [(1, 1), (2, 1), (3, 2), (16, 8)])
def test_whoever_is_alone_has_half_rounded_up(most: int, share: int) -> None:
    shares, granted = Shares(most, "sandboxes"), list[str]()
    asked(shares, "a", 40, granted)
    assert len(granted) == share


def test_those_who_wait_take_turns() -> None:
    shares, granted = Shares(1, "sandboxes"), list[str]()
    asked(shares, "a", 5, granted)
    asked(shares, "b", 2, granted)
    asked(shares, "c", 1, granted)
    for _ in range(8):
        shares.leave(granted[-1])
    assert granted == ["a", "a", "b", "c", "a", "b", "a", "a"]
    assert shares._held == shares._waiting == {}


def test_what_is_no_longer_wanted_is_passed_on() -> None:
    shares, granted = Shares(1, "sandboxes"), list[str]()

    def grant(name: str) -> Callable[[], None]:
        return lambda: granted.append(name)

    grants = {name: grant(name) for name in ("first", "second", "third")}
    for one in grants.values():
        shares.ask("a", one)
    shares.give_up("a", grants["second"])  # it waits
    shares.give_up("a", grants["first"])  # it was granted
    assert granted == ["first", "third"]
    shares.leave("a")
    assert shares._held == shares._waiting == {}


def test_who_waits_too_long_is_told_whose_they_are() -> None:
    shares = Shares(2, "sandboxes", "GRADEBOX_MOST_SANDBOXES")
    shares.enter("a", 1.0, lambda: None)
    with pytest.raises(Busy, match="this project has had all 1 sandboxes") as own:
        shares.enter("a", 0.05, lambda: None)
    assert own.value.is_own
    shares.enter("b", 1.0, lambda: None)
    with pytest.raises(Busy, match=r"all 2 sandboxes of the service .* GRADEBOX_MOST_SANDBOXES") as others:
        shares.enter("c", 0.05, lambda: None)
    assert not others.value.is_own
    shares.leave("a")
    shares.leave("b")
    assert shares._held == shares._waiting == {}


def test_waiting_may_be_ended() -> None:
    shares = Shares(1, "sandboxes")
    shares.enter("a", 1.0, lambda: None)
    looks = iter([None, None])

    def look() -> None:
        if next(looks, 0) == 0:
            raise LookupError

    with pytest.raises(LookupError):
        shares.enter("b", 60.0, look)
    shares.leave("a")
    assert shares._held == shares._waiting == {}


@given(st.integers(1, 9), st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=60))
def test_never_more_than_there_are_and_nothing_is_forgotten(most: int, steps: list[tuple[str, bool]]) -> None:
    shares, granted = Shares(most, "sandboxes"), list[str]()
    wanted: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for project, leaves in steps:
        if leaves and held[project]:
            shares.leave(project)
            granted.remove(project)
        elif not leaves:
            wanted[project] += 1
            asked(shares, project, 1, granted)
        held = Counter(granted)
        assert sum(held.values()) <= most
    while granted:
        wanted[granted[0]] -= 1
        shares.leave(granted.pop(0))
    assert shares._held == shares._waiting == {}


def test_many_threads_at_once() -> None:
    shares = Shares(3, "sandboxes")
    inside: list[int] = []
    most: list[int] = []

    def use(project: str) -> None:
        for _ in range(50):
            shares.enter(project, 20.0, lambda: None)
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            shares.leave(project)

    threads = [threading.Thread(target=use, args=(f"p{number % 4}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) <= 3
    assert shares._held == shares._waiting == {}


def test_several_places_are_given_together_and_the_first_beyond_the_share() -> None:
    shares, granted = Shares(1000, "MiB"), list[str]()
    shares.ask("a", lambda: granted.append("a"), 300)
    shares.ask("a", lambda: granted.append("a again"), 300)  # its share is 500
    shares.ask("b", lambda: granted.append("b"), 600)
    assert granted == ["a", "b"]
    assert shares.held == 900
    shares.ask("c", lambda: granted.append("c"), 2000)  # needs all
    shares.ask("d", lambda: granted.append("d"), 100)
    assert granted == ["a", "b", "d"]
    shares.leave("b", 600)
    shares.leave("d", 100)
    assert granted == ["a", "b", "d"]
    shares.leave("a", 300)
    assert granted == ["a", "b", "d", "a again"]
    shares.leave("a", 300)
    assert granted == ["a", "b", "d", "a again", "c"]
    shares.leave("c", 2000)
    assert shares._held == shares._waiting == {}


def test_who_wants_much_is_not_passed_over_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(fair_shares, "monotonic", lambda: now)
    shares, granted = Shares(1000, "MiB"), list[str]()
    shares.ask("a", lambda: granted.append("a"), 300)
    shares.ask("b", lambda: granted.append("b"), 300)
    shares.ask("large", lambda: granted.append("large"), 800)
    for step in range(100):  # a or b always holds some
        now = step * 0.5
        project = "ab"[step % 2]
        shares.leave(project, 300)
        if "large" in granted:
            break
        shares.ask(project, partial(granted.append, project), 300)
    assert granted[-1] == "large"
    assert fair_shares._PATIENCE_S < now < fair_shares._PATIENCE_S + 2
    shares.leave("large", 800)
    assert granted[-1] in "ab"


def test_what_was_kept_for_one_that_gives_up_is_given_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(fair_shares, "monotonic", lambda: now)
    shares, granted = Shares(1000, "MiB"), list[str]()

    def large() -> None:
        granted.append("large")

    shares.ask("a", lambda: granted.append("a"), 300)
    shares.ask("large", large, 800)
    now = fair_shares._PATIENCE_S + 1
    shares.ask("b", lambda: granted.append("b"), 300)
    assert granted == ["a"]
    shares.give_up("large", large, 800)
    assert granted == ["a", "b"]
