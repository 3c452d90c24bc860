"""Bad graders, each with what must come of it: one object a line in `graders.jsonl`."""

import base64
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gradebox.outcome import Outcome
from gradebox.schemas import Isolation, Report

_FILE = Path(__file__).with_name("graders.jsonl")


@dataclass(frozen=True)
class Case:
    """One bad grader."""

    row: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def isolation(self) -> Isolation:
        isolation: Isolation = self.row["isolation"]
        return isolation

    @property
    def must(self) -> str:
        """What has to come of it, in words."""
        return str(self.row["must"])

    def concerns(self, backend: str) -> bool:
        return backend in self.row.get("backends", [backend])

    def source(self, canaries: dict[str, str]) -> bytes:
        """What is uploaded, with the names of this machine put in."""
        if "source_b64" in self.row:
            return base64.b64decode(self.row["source_b64"])
        if made := self.row.get("source_gen"):
            prefix: bytes = made["prefix"].encode()
            pad: bytes = made["pad"].encode()
            return prefix + pad * -(-(int(made["total_bytes"]) - len(prefix)) // len(pad))
        text: str = self.row["source"]
        for placeholder, value in canaries.items():
            text = text.replace(placeholder, value)
        return text.encode("utf-8", "surrogatepass")

    @cached_property
    def threads(self) -> list[bytes]:
        """Lines of JSON. Generated ones take the place of the first."""
        threads = list(self.row.get("threads", []))
        for number, made in enumerate(self.row.get("threads_gen", [])):
            part, times = made["content_repeat"]
            thread = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": part * times}]}
            threads[number : number + 1] = [thread]
        return [json.dumps(thread).encode() for thread in threads]

    @property
    def max_seconds(self) -> float:
        return float(self.row["expect"].get("max_seconds", 60.0))

    def faults_of_report(self, report: Report) -> list[str]:
        expect = self.row["expect"]
        failed = report.failed
        if expect["valid"] != "either" and report.valid != expect["valid"]:
            return [f"valid is {report.valid}: {failed and failed.message}"]
        if failed and "fails_at" in expect and failed.name not in expect["fails_at"]:
            return [f"failed at {failed.name}, not at {expect['fails_at']}: {failed.message}"]
        return []

    def faults_of_outcomes(self, outcomes: list[Outcome]) -> list[str]:
        expect = self.row["expect"]
        faults = [] if len(outcomes) == len(self.threads) else [f"{len(outcomes)} outcomes"]
        for number, outcome in enumerate(outcomes):
            came_to = outcome.error.kind if outcome.error else "scored"
            allowed = expect.get("outcomes")
            if allowed and number < len(allowed) and came_to not in allowed[number]:
                faults.append(f"thread {number} came to {came_to}, not to one of {allowed[number]}: {outcome}")
            if outcome.score is None:
                continue
            right = expect.get("scores", {}).get(str(number), [outcome.score])
            wrong = expect.get("never_scores", []) + expect.get("never_scores_at", {}).get(str(number), [])
            if outcome.score not in right or outcome.score in wrong:
                faults.append(f"thread {number} was scored {outcome.score}, not one of {right}, and never {wrong}")
        return faults


CASES = [Case(json.loads(line)) for line in _FILE.read_text().splitlines()]
