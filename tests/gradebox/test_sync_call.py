"""Tests of users' functions that must return at once."""

from functools import partial
from typing import Any

import pytest

from gradebox.sync_call import refuse_async, sync_call


async def later(number: int) -> bool:
    return False


async def several(number: int) -> Any:
    yield number


class Slow:
    async def __call__(self, number: int) -> bool:
        return False

    async def method(self, number: int) -> bool:
        return False


@pytest.mark.parametrize("fn", [later, several, Slow().method])
def test_an_async_function_is_refused(fn: Any) -> None:
    with pytest.raises(ValueError, match=r"fn= takes a function that returns its result at once, and \w+ is async: wr"):
        refuse_async("fn=", fn)


@pytest.mark.parametrize("fn", [bool, "text".startswith, Slow(), partial(later, 1), lambda number: later(number)])
def test_others_are_not(fn: Any) -> None:
    refuse_async("fn=", fn)


@pytest.mark.parametrize("fn", [later, Slow(), partial(later), lambda number: later(number)])
@pytest.mark.filterwarnings("error")
def test_what_has_to_be_awaited_is_an_error(fn: Any) -> None:
    with pytest.raises(ValueError, match="returned a coroutine, which is no result yet: write it with `def`"):
        sync_call("fn=", fn, 1)


@pytest.mark.parametrize("fn", [several, lambda number: iter(range(number))])
def test_what_has_to_be_iterated_is_an_error(fn: Any) -> None:
    with pytest.raises(ValueError, match=r"(generator|iterator), which is no result yet: .* yield nothing in it"):
        sync_call("fn=", fn, 1)


def test_other_results_are_returned() -> None:
    assert sync_call("fn=", max, 1, 2) == 2
    assert sync_call("fn=", lambda: None) is None
