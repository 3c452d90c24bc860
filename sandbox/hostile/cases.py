"""One hostile grader and its required result."""

import base64
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradebox.asks.asking import MOST_ASKS
from gradebox.outcome import Outcome
from gradebox.schemas import Isolation, Report
from sandbox.limits import STDOUT_BYTES, TEXT_BYTES


class LateFault(str):
    """A fault that an overloaded machine may cause. The texts do not tell: they may have words of the grader."""


@dataclass(frozen=True)
class Case:
    """A hostile grader, as a row of the corpus describes it."""

    row: dict[str, Any]

    @property
    def name(self) -> str:
        """The name, which no other case has."""
        return str(self.row["name"])

    @property
    def category(self) -> str:
        """The kind of attack, in one word."""
        return str(self.row["category"])

    @property
    def isolation(self) -> Isolation:
        """The isolation between the completions of the grader."""
        isolation: Isolation = self.row["isolation"]
        return isolation

    @property
    def must(self) -> str:
        """The required result, in words."""
        return str(self.row["must"])

    @property
    def timeout_s(self) -> float:
        """The timeout of each completion, including those of the test run, in seconds."""
        return float(self.row.get("timeout_s", 1.0))

    @property
    def max_seconds(self) -> float:
        """The bound on the time to prove the grader, and on the time to score with it, in seconds."""
        return float(self.row["expect"].get("max_seconds", 60.0))

    def concerns(self, backend: str) -> bool:
        """Whether the case applies to this backend."""
        return backend in self.row.get("backends", [backend])

    def source(self, canaries: dict[str, str]) -> bytes:
        """The source to upload, with the placeholders replaced by the names of this machine."""
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
        """Lines of JSON. Each generated one replaces the listed one at its position."""
        threads = list(self.row.get("threads", []))
        for number, made in enumerate(self.row.get("threads_gen", [])):
            part, times = made["content_repeat"]
            thread = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": part * times}]}
            threads[number : number + 1] = [thread]
        return [json.dumps(thread).encode() for thread in threads]

    @cached_property
    def next(self) -> "Case | None":
        """The batch that the same sandbox grades next, if the case is about that."""
        return Case(self.row | self.row["next"] | {"next": None}) if self.row.get("next") else None

    def faults_of_report(self, report: Report) -> list[str]:
        """Compares a report with the expected one. Returns the differences in words, empty if there are none."""
        expect = self.row["expect"]
        failed = report.failed
        fault = LateFault if _was_late(report) else str
        if expect["valid"] != "either" and report.valid != expect["valid"]:
            said = failed.message if failed else "all checks passed"
            return [fault(f"the grader was {'accepted' if report.valid else 'refused'}: {said}")]
        if failed and "fails_at" in expect and failed.name not in expect["fails_at"]:
            return [fault(f"it failed at {failed.name}, not at {expect['fails_at']}: {failed.message}")]
        return []

    def faults_of_outcomes(self, outcomes: list[Outcome]) -> list[str]:
        """Compares outcomes with the expected ones. Returns the differences in words, empty if there are none."""
        faults = [] if len(outcomes) == len(self.threads) else [f"{len(outcomes)} outcomes for {len(self.threads)}"]
        for number, outcome in enumerate(outcomes):
            faults += self._faults_of(number, outcome)
            faults += _excess(number, outcome)
        return faults

    def _faults_of(self, number: int, outcome: Outcome) -> list[str]:
        expect = self.row["expect"]
        name = f"completion {number}" if outcome.id is None else f"completion {number} ({outcome.id})"
        result = _result_of(outcome)
        said = outcome.error.message if outcome.error else outcome.reason or ""
        allowed = expect.get("outcomes")
        if allowed and number < len(allowed) and result not in allowed[number]:
            fault = LateFault if result == "timeout" else str
            return [fault(f"{name} came to {result}, not to {' or '.join(allowed[number])}. {said}".strip())]
        if outcome.score is None:
            return []
        right = expect.get("scores", {}).get(str(number), [outcome.score])
        wrong = expect.get("never_scores", []) + expect.get("never_scores_at", {}).get(str(number), [])
        if outcome.score not in right or outcome.score in wrong:
            told = said or outcome.stdout or ""
            return [f"{name} was scored {outcome.score}, not {right} and never {wrong}. {told}".strip()]
        return []


def _was_late(report: Report) -> bool:
    """Whether a report is of a test run that came to a timeout or to its end, or of a source that compiled too long."""
    failed = report.failed
    if failed is None or failed.name != "test_run":
        return failed is not None and failed.name == "syntax" and " takes longer than " in failed.message
    return all(one.error is None or one.error.kind == "timeout" for one in report.outcomes)


def _result_of(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"model: {outcome.error.cause}" if outcome.error.kind == "model" else outcome.error.kind
    return "scored" if outcome.score is not None else "not_applicable"


def _excess(number: int, outcome: Outcome) -> list[str]:
    """Reports texts that are longer, and asks that are more, than any grader is allowed."""
    message = outcome.error.message if outcome.error else ""
    texts = {"printed text": (outcome.stdout, STDOUT_BYTES), "reason": (outcome.reason, TEXT_BYTES)}
    texts["message"] = (message, TEXT_BYTES)
    # Bytes that are not UTF-8 are replaced, which may triple their length.
    lengths = {name: (len((text or "").encode()), most) for name, (text, most) in texts.items()}
    asks = outcome.spent.asks if outcome.spent else 0
    many = [f"completion {number} was answered {asks} asks"] if asks > MOST_ASKS else []
    return many + [
        f"completion {number} had {length} bytes of its {name} kept"
        for name, (length, most) in lengths.items()
        if length > 3 * most
    ]
