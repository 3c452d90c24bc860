"""Tests of docs/threads.md: shown lines are threads, and lines listed as refused are refused."""

import json
import re
from pathlib import Path

import pytest

from gradebox.group_forms import members
from gradebox.thread import StringThread

PAGE = Path("docs/threads.md").read_text()
SHOWN = [line for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
REFUSED = re.findall(r"^\| `(\[\]|\{.*\})` \|", PAGE, re.MULTILINE)


def test_the_page_has_lines_of_both_kinds() -> None:
    assert len(SHOWN) == 6
    assert len(REFUSED) == 8


@pytest.mark.parametrize("line", SHOWN[:3])
def test_all_forms_are_the_same_thread(line: str) -> None:
    thread = StringThread.from_json(line)
    assert thread == StringThread([("user", "2+2?"), ("assistant", "4")], {"answer": "4"})


def test_an_agent_has_tool_calls() -> None:
    (call,) = StringThread.from_json(SHOWN[3]).tool_calls
    assert (call.name, call.arguments, call.result) == ("search", {"q": "gradebox"}, "found")


@pytest.mark.parametrize("line", SHOWN[4:])
def test_groups_have_two_threads(line: str) -> None:
    threads = [StringThread.from_object(each) for each in members(json.loads(line))]
    assert [thread.completion() for thread in threads] == ["4", "It is 4."]
    assert [thread.messages() for thread in threads] == [[("user", "2+2?")]] * 2


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_nearly_a_thread_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        StringThread.from_json(line)
