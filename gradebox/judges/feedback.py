"""Feedback on an outcome: what to change in the completion that was scored, or in the judge that scored it.

A thread of a batch of feedback has no turns that matter. Its metadata holds the `thread` that was scored, the
`outcome` of that, and perhaps a `label`; `storage/feedback_lines.py` writes it.
"""

from collections.abc import Mapping
from json import JSONEncoder
from math import isfinite
from typing import Any, Literal, get_args

from gradebox.asks.model import Model
from gradebox.judges import feedback_prompts as prompts
from gradebox.judges import fields
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread

Of = Literal["completion", "judge"]
"""What feedback is on."""

MOST_TEXTS = 50  # of feedback that are brought together
_DETAILS_CHARACTERS = 4000
_SETTINGS_CHARACTERS = 32_000
_FEEDBACK: dict[str, Any] = {
    "type": "object",
    "properties": {"feedback": {"type": "string"}},
    "required": ["feedback"],
    "additionalProperties": False,
}
_PROPOSAL: dict[str, Any] = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "proposal": {"type": "string", "minLength": 1}},
    "required": ["reasoning", "proposal"],
    "additionalProperties": False,
}
_encode = JSONEncoder(ensure_ascii=False).encode


class Feedback:
    """Asks a model what to change so that an outcome becomes better: `await feedback(thread)`.

    The score is that of the outcome, and its reason is the feedback. Make it at module level.
    """

    def __init__(
        self,
        model: str,
        settings: str,
        of: Of = "completion",
        instructions: str | None = None,
        label: str | None = None,
        threshold: float | None = None,
        only_wrong: bool = False,
    ) -> None:
        """Feedback on the outcomes of one grader.

        Args:
            model: the model's key in the project.
            settings: what the grader is, as `settings_of` tells it.
            of: whether the completion is to be changed, or the judge.
            instructions: what else the model is told.
            label: where the right score stands in the thread that was scored, as `metadata.gold`; else it comes along.
            threshold: scores and labels count as 1 from there on, else as 0; None: as they are.
            only_wrong: whether nothing is said of a score that its label bears out.

        Raises:
            ValueError: a setting is none; the message says which.
        """
        if of not in get_args(Of):
            raise ValueError(f"of= is one of {', '.join(map(repr, get_args(Of)))}, and not {of!r:.80}")
        self._model = Model(model)
        self._settings = settings
        self._of = of
        self._instructions = instructions
        self._label = label
        self._threshold = threshold
        self._only_wrong = only_wrong

    async def __call__(self, thread: StringThread) -> Score:
        """The feedback on one outcome.

        Raises:
            NotApplicable: there is nothing to say: the model finds nothing to change, the thread has no completion, or
                there is no label, or it bears the score out.
            ModelError: there is no reply.
            ValueError: the thread is too long to be looked at once more.
        """
        outcome = thread.metadata["outcome"]
        told = {"index": outcome["index"], "grader": outcome["grader"], "of": self._of}
        if thread.metadata["thread"] is None:
            raise ValueError("the thread and its outcome together are longer than a line may be: shorten the thread")
        scored = StringThread.from_object(thread.metadata["thread"], keep_unknown=True)
        completion, score = scored.completion(), outcome["score"]
        if completion is None:
            raise NotApplicable("the thread has no completion", told)
        label = thread.metadata.get("label") if self._label is None else _number_at(scored.metadata, self._label)
        if label is not None:
            if self._only_wrong and not differs(score, label, self._threshold):
                raise NotApplicable("the label bears the score out", told)
            told["label"] = label
        elif self._only_wrong or self._label is not None:
            raise NotApplicable("it has no label", told)
        asked = self._prompt(scored, completion, outcome, label)
        text = (await self._model.chat(prompts.messages(asked), _FEEDBACK, temperature=0.0)).data["feedback"].strip()
        if not text:
            raise NotApplicable("nothing to change", told)
        return Score(score, text, details=told)

    def _prompt(self, scored: StringThread, completion: str, outcome: Mapping[str, Any], label: float | None) -> str:
        shown = {"judge" if self._of == "judge" else "grader": self._settings}
        if before := scored.messages():
            shown["conversation"] = fields.listed(before)
        shown["answer"] = completion
        if outcome.get("reason"):
            shown["reason"] = outcome["reason"]
        if outcome.get("details"):
            shown["details"] = cut(_encode(outcome["details"]), _DETAILS_CHARACTERS)
        said = [f"The score is {_number(outcome['score'])}."]
        if label is not None:
            said.append(f"By its label it should be {_number(label)}.")
        return prompts.feedback(self._of == "judge", shown, said, self._instructions)

    def __repr__(self) -> str:
        return f"Feedback(model={self._model.key!r}, of={self._of!r})"


class Proposal:
    """Asks a model for one new text of a judge that takes up several of feedback: `await proposal(thread)`.

    They stand in the thread's metadata as `feedback`, beside the judge's `settings` and perhaps `instructions`. The
    proposal is in `details`. Make it at module level.
    """

    def __init__(self, model: str) -> None:
        """`model` is the model's key in the project."""
        self._model = Model(model)

    async def __call__(self, thread: StringThread) -> Score:
        """The proposal. Raises ModelError where there is no reply that holds one."""
        given = thread.metadata
        prompt = prompts.proposal(given["settings"], given["feedback"][:MOST_TEXTS], given.get("instructions"))
        reply = await self._model.chat(prompts.messages(prompt), _PROPOSAL, temperature=0.0)
        return Score(1.0, reply.data["reasoning"], details={"proposal": reply.data["proposal"]})


def differs(score: float, label: float, threshold: float | None) -> bool:
    """Whether a score is another decision than its label."""
    return score != label if threshold is None else (score >= threshold) != (label >= threshold)


def settings_of(label: str, kind: str, description: str, config: Mapping[str, Any] | None, source: str) -> str:
    """What a grader is, for a model to read: its settings, or its source where it has none."""
    what = _encode(config) if config is not None else source
    parts = [f"{label} ({kind.replace('_', ' ')})", description, what]
    return cut("\n\n".join(part for part in parts if part), _SETTINGS_CHARACTERS)


def cut(text: str, most: int) -> str:
    """The text, or its beginning and how much is left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _number(value: float) -> str:
    """All of its digits: a score and a label that differ must not read the same."""
    return repr(float(value)).removesuffix(".0")


def _number_at(metadata: Any, field: str) -> float | None:
    try:
        value = fields.value_of(StringThread([], metadata), field)
    except ValueError:  # there is no such field
        return None
    try:
        number = float(value) if isinstance(value, int | float) else None
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if number is not None and isfinite(number) else None
