"""Tests of docs/threads.md: shown lines and rows of other tools are threads, lines listed as refused are refused."""

import json
import re
import shutil
import subprocess
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


OTHERS = {
    "samples": {"doc_id": 7, "arguments": {"gen_args_0": {"arg_0": "q"}}, "resps": [["4"]], "target": "4"},
    "results": {"prompt": {"raw": "q", "label": "l"}, "response": {"output": "4"}, "vars": {"answer": "4"}},
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize("name", OTHERS)
def test_rows_of_other_tools_become_threads(name: str, tmp_path: Path) -> None:
    command, *_ = re.findall(rf"^jq .* {name}\.jsonl >threads\.jsonl$", PAGE, re.MULTILINE)
    (tmp_path / f"{name}.jsonl").write_text(json.dumps(OTHERS[name]) + "\n")
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    thread = StringThread.from_json((tmp_path / "threads.jsonl").read_text())
    assert (thread.messages(), thread.completion(), thread.metadata) == ([("user", "q")], "4", {"answer": "4"})
