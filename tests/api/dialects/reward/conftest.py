"""Fixtures for a grader as a reward server."""

from typing import NamedTuple

import pytest

from tests.gradebox.conftest import Service

SOURCE = '''
import os
import time

import gradebox


async def grade(thread):
    """The length, with odd things where it is asked for them."""
    text = thread.completion()
    if text == "boom":
        raise ValueError("boom")
    if text == "exit":
        os._exit(1)
    if text == "hang":
        time.sleep(60)
    if text == "off":
        raise gradebox.NotApplicable("no documents")
    if text == "details":
        return gradebox.Score(0.5, details={"votes": [1, 0]})
    if text == "nan":
        return float("nan")
    if text == "reason":
        print("x" * 2000)
        return gradebox.Score(0.5, reason="half " * 500)
    if text == "metadata":
        return float(thread.metadata.get("reward", -1))
    if text == "turns":
        return float(len(thread.get_turns()))
    return float(len(text))
'''
FAULTS = [("boom", "exception"), ("exit", "crash"), ("hang", "timeout"), ("nan", "bad_return")]


class Reward(NamedTuple):
    """The URL of a reward server, with the key."""

    url: str
    project: str
    service: Service

    def at(self, user: str = "", key: str | None = None, grader: str = "length") -> str:
        """The URL of a grader with other credentials."""
        host = self.service.url.removeprefix("http://")
        sent = f"{user}:{self.service.key if key is None else key}@" if key != "" else ""
        return f"http://{sent}{host}/reward/{self.project}/{grader}"


@pytest.fixture(scope="module")
def reward(service: Service) -> Reward:
    """Creates a grader that returns the length of a completion, and one that takes threads without one."""
    client = service.new_project()
    client.graders.create.function(key="length", fn=SOURCE, name="Length", description="how long it is", timeout_s=1.0)
    turns = "async def grade(thread):\n    return len(thread.get_turns())\n"
    client.graders.create.function(key="turns", fn=turns)
    return Reward(Reward("", client.project, service).at(), client.project, service)
