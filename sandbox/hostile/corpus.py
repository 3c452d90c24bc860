"""Reads all hostile graders from the files in this folder."""

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox.hostile.cases import Case
from sandbox.kernel import seccomp

_HERE = Path(__file__).parent
_GRADERS_OWN = ["scored", "exception", "bad_return", "timeout", "memory", "crash"]
_LONGER = 4000  # longer than the code of an attack
_CODE_RUNNER = """
STATE = []

def check(names):
    return 1.0 if names.get("answer") == 42 else 0.0

async def grade(thread):
    STATE.append(1)
    names = {}
    try:
        exec(thread.completion(), names)
    except BaseException:
        return 0.25
    return 666.0 if len(STATE) > 1 else check(names)
"""


def corpus() -> list[Case]:
    """Returns all cases.

    Raises:
        IsolationUnavailable: there is no libseccomp, which has the numbers of system calls.
    """
    # Some open files of the standard library, by paths with the version of Python that they were collected with.
    library = f"/usr/lib/python{sys.version_info.major}.{sys.version_info.minor}/"
    collected = (_HERE / "corpus.jsonl").read_text().replace("/usr/lib/python3.11/", library).splitlines()
    return [
        *(Case(json.loads(line)) for line in collected),
        *_variations(_toml("variations")),
        *_calls(_toml("calls")),
        *_channel(_toml("channel")),
        *_asking(_toml("asking")),
        *_reuse(_toml("reuse")),
    ]


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((_HERE / f"{name}.toml").read_text())


def _variations(file: dict[str, Any]) -> Iterator[Case]:
    yield from map(_grader, file["grader"])
    for row in file["evil"]:
        body = row["evil"].strip("\n").replace("\n", "\n        ")
        body = f"    if thread.last_content() == 'EVIL':\n        {body}\n    return 1.0\n"
        source = f"{row.get('top', '')}\nasync def grade(thread):\n{body}"
        yield _row(row, source, _among_honest("good", "EVIL"), _no_other_affected(row, 1.0))
    for row in file["code"]:
        yield _row(row, _CODE_RUNNER, _among_honest("answer = 41", row["code"]), _no_other_affected(row, 0.0))


def _grader(row: dict[str, Any]) -> Case:
    """A grader that is hostile itself: its outcomes may be any of its own."""
    expect = {"valid": row["valid"], "outcomes": [row.get("may", _GRADERS_OWN)] * 3}
    expect |= {"fails_at": row["fails_at"]} if "fails_at" in row else {}
    return _row(row, row["source"], _among_honest("good", "EVIL"), expect)


def _no_other_affected(row: dict[str, Any], honest: float) -> dict[str, Any]:
    """Expects that the attack, the second of three completions, affects no other."""
    slow = ["timeout"] if row.get("category") == "resource" else []  # exhausting a resource may exceed the timeout
    may = row.get("may", ["scored"]) + slow
    scores = {"0": [honest], "1": row.get("scores", [0.25]), "2": [honest]}
    return {"valid": True, "outcomes": [["scored"], may, ["scored"]], "scores": scores}


def _calls(file: dict[str, Any]) -> Iterator[Case]:
    for row in file["calls"]:
        numbers = {name: number for name in row["names"] if (number := seccomp.number(name)) is not None}
        threads = [_thread("", id=name, metadata={"number": number}) for name, number in numbers.items()]
        scores = {str(place): [0.25] for place in range(len(threads))}
        expect = {"valid": True, "outcomes": [["scored"]] * len(threads), "scores": scores}
        yield _row(row | {"category": "calls"}, file["source"], threads, expect)


def _channel(file: dict[str, Any]) -> Iterator[Case]:
    for attack in file["attack"]:
        threads = _among_honest("good", attack["code"])
        row = {"category": "channel", "timeout_s": 0.5}
        must = "no completion speaks for another"
        own = row | {"name": f"channel: {attack['name']}", "must": must}
        wish = {"may": attack["may"], "scores": [0.25, 1.0, 666.0]}
        yield _row(own, file["source"], threads, _no_other_affected(wish, 1.0))
        # The scores may be any: batch isolation promises nothing between completions.
        must = "each line comes to one outcome of the grader's own"
        batch = row | {"name": f"channel, batch: {attack['name']}", "must": must, "isolation": "batch"}
        yield _row(batch, file["source"], threads, {"valid": True, "outcomes": [_GRADERS_OWN] * 3})


def _asking(file: dict[str, Any]) -> Iterator[Case]:
    for attack in file["attack"]:
        threads = _among_honest("good", attack["code"])
        for number, thread in enumerate(threads):
            long = "" if number == 1 else "x" * _LONGER  # too long for the next line to overwrite all of it
            thread["metadata"] = {"number": number, "long": long, "own": f"WHAT-{number}-IS-TOLD"}
        expect = _no_other_affected(attack, 1.0)
        expect["scores"] |= {"1": attack.get("scores", [2.0]), "2": [3.0]}
        row = {"category": "asking", "timeout_s": 0.5, "must": "what it asks and is answered is its own affair"}
        yield _row(row | attack | {"name": f"asking: {attack['name']}"}, file["source"], threads, expect)
    own = {"category": "asking", "timeout_s": 0.5}
    for row in file["grader"]:
        yield _grader(row | own | {"name": f"asking: {row['name']}"})
    own |= {"isolation": "batch", "must": "the others are judged as without it"}
    for row in file["run"]:
        whole = own | row | {"name": f"asking, batch: {row['name']}"}
        yield _row(whole, row["source"], _among_honest("good", "EVIL"), _no_other_affected(row, 1.0))


def _reuse(file: dict[str, Any]) -> Iterator[Case]:
    must = "what one batch leaves the next does not find"
    for left in file["left"]:
        found = {"outcomes": [["scored"]], "scores": {"0": [0.0]}}
        following = {"threads": [_thread(left["look"])], "expect": found}
        for isolation in ("batch", "completion"):
            name = f"reuse, {isolation}: {left['name']}"
            row = {"name": name, "must": must, "category": "reuse", "isolation": isolation, "timeout_s": 2.0}
            source = f"# {name}\n{file['source']}"  # a unique source, so a separate sandbox
            expect = {"valid": True, "outcomes": [_GRADERS_OWN]}
            yield _row(row | {"next": following}, source, [_thread(left["leave"])], expect)


def _row(row: dict[str, Any], source: str, threads: list[dict[str, Any]], expect: dict[str, Any]) -> Case:
    limits = {"max_seconds": row.get("max_seconds", 15.0)}
    return Case({"isolation": "completion"} | row | {"source": source, "threads": threads, "expect": limits | expect})


def _among_honest(honest: str, evil: str) -> list[dict[str, Any]]:
    return [_thread(honest), _thread(evil), _thread(honest)]


def _thread(completion: str, **more: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": completion}], **more}
