"""Tests of the reader of groups."""

import json

from sandbox.guest.child.read_group import GroupReader
from sandbox.guest.child.read_thread import ThreadReader
from sandbox.guest.child.thread_decoder import thread_decoder

READER = GroupReader(ThreadReader(1 << 20, 64, thread_decoder()))


def test_each_thread_of_a_group_has_a_prompt_and_metadata_of_its_own() -> None:
    prompt = [{"role": "user", "content": "2+2?", "name": "Ann"}]
    group = {"prompt": prompt, "completions": ["4", "five"], "metadata": {"marks": []}}
    first, second = READER.read(json.dumps(group).encode())
    first.metadata["marks"].append(1)
    first.metadata["length"] = 1
    first.raw_messages()[0]["name"] = "Bob"
    assert (second.metadata, second.raw_messages()[0]) == ({"marks": []}, prompt[0])
    assert [one.completion() for one in (first, second)] == ["4", "five"]
