"""docs/threads.md: each line that it shows is a thread, and each that it says is refused is refused."""

import re
from pathlib import Path

import pytest

from gradebox.thread import StringThread

PAGE = Path("docs/threads.md").read_text()
SHOWN = [line for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
REFUSED = re.findall(r"^\| `(\{.*\})` \|", PAGE, re.MULTILINE)


def test_the_page_has_lines_of_both_kinds() -> None:
    assert len(SHOWN) == 4
    assert len(REFUSED) == 6


@pytest.mark.parametrize("line", SHOWN[:3])
def test_all_forms_are_the_same_thread(line: str) -> None:
    thread = StringThread.from_json(line)
    assert thread == StringThread([("user", "2+2?"), ("assistant", "4")], {"answer": "4"})


def test_an_agent_has_tool_calls() -> None:
    (call,) = StringThread.from_json(SHOWN[3]).tool_calls
    assert (call.name, call.arguments, call.result) == ("search", {"q": "gradebox"}, "found")


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_nearly_a_thread_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        StringThread.from_json(line)
