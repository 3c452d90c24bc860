"""Feedback on an outcome: proposed changes to the completion that was scored, or to the judge that scored it.

The turns of a thread in a batch of feedback are not used. Its metadata holds the `thread` that was scored, its
`outcome`, and optionally a `label`; `storage/outcomes/feedback_lines.py` writes it.
"""

from collections.abc import Mapping
from json import JSONEncoder
from typing import Any, Literal

from gradebox.asks.model import Model
from gradebox.asks.schema import object_of
from gradebox.judges import feedback_prompts as prompts
from gradebox.judges import fields
from gradebox.judges.setting_checks import check_choice
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread

Of = Literal["completion", "judge"]
"""The subject of the feedback."""

MOST_TEXTS = 50  # texts of feedback in one proposal
_DETAILS_CHARACTERS = 4000
_SETTINGS_CHARACTERS = 32_000
_FEEDBACK = object_of({"feedback": {"type": "string"}})
_PROPOSAL = object_of({"reasoning": {"type": "string"}, "proposal": {"type": "string", "minLength": 1}})
_encode = JSONEncoder(ensure_ascii=False).encode


class Feedback:
    """Asks a model how to improve what led to an outcome: `await feedback(thread)`.

    The score is that of the outcome, and its reason is the feedback. Create it at module level.
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
        """Make feedback on the outcomes of one grader.

        Args:
            model: the model's key in the project.
            settings: a description of the grader, as returned by `settings_of`.
            of: whether to change the completion or the judge.
            instructions: further instructions for the model.
            label: the field of the scored thread that holds the right score, such as `metadata.gold`; None: the label
                is in the metadata of the feedback thread.
            threshold: scores and labels count as 1 from the threshold on, else as 0; None: as they are.
            only_wrong: whether to skip outcomes whose score agrees with the label.

        Raises:
            ValueError: a setting is invalid; the message names it.
        """
        check_choice("of", of, Of)
        self._model = Model(model)
        self._settings = settings
        self._of = of
        self._instructions = instructions
        self._label = label
        self._threshold = threshold
        self._only_wrong = only_wrong

    async def __call__(self, thread: StringThread) -> Score:
        """Return the feedback on one outcome.

        Raises:
            NotApplicable: there is no feedback: the model finds nothing to change, the thread has no completion, the
                label is missing, or the label agrees with the score.
            ModelError: there is no reply.
            ValueError: the thread and its outcome together exceed the length of a line.
        """
        outcome = thread.metadata["outcome"]
        reported = {"index": outcome["index"], "grader": outcome["grader"], "of": self._of}
        if thread.metadata["thread"] is None:
            raise ValueError("the thread and its outcome together are longer than a line may be: shorten the thread")
        scored = StringThread.from_object(thread.metadata["thread"], keep_unknown=True)
        completion, score = scored.completion(), outcome["score"]
        if completion is None:
            raise NotApplicable("the thread has no completion", reported)
        label = thread.metadata.get("label") if self._label is None else fields.number_at(scored.metadata, self._label)
        if label is not None:
            if self._only_wrong and not differs(score, label, self._threshold):
                raise NotApplicable("the label bears the score out", reported)
            reported["label"] = label
        elif self._only_wrong or self._label is not None:
            raise NotApplicable("it has no label", reported)
        asked = self._prompt(scored, completion, outcome, label)
        text = (await self._model.chat(prompts.messages(asked), _FEEDBACK, temperature=0.0)).data["feedback"].strip()
        if not text:
            raise NotApplicable("nothing to change", reported)
        return Score(score, text, details=reported)

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
        if self._of == "completion":
            return prompts.on_completion(shown, said, self._instructions)
        return prompts.on_judge(shown, said, self._instructions, label is not None or self._instructions is not None)

    def __repr__(self) -> str:
        return f"Feedback(model={self._model.key!r}, of={self._of!r})"


class Proposal:
    """Asks a model for one new text for a judge, based on several texts of feedback: `await proposal(thread)`.

    The thread's metadata holds these texts as `feedback`, the judge's `settings` and optionally `instructions`. The
    proposal is in `details`. Create it at module level.
    """

    def __init__(self, model: str) -> None:
        """`model` is the model's key in the project."""
        self._model = Model(model)

    async def __call__(self, thread: StringThread) -> Score:
        """Return the proposal. Raises ModelError if no reply holds one."""
        given = thread.metadata
        prompt = prompts.proposal(given["settings"], given["feedback"][:MOST_TEXTS], given.get("instructions"))
        reply = await self._model.chat(prompts.messages(prompt), _PROPOSAL, temperature=0.0)
        return Score(1.0, reply.data["reasoning"], details={"proposal": reply.data["proposal"]})


def differs(score: float, label: float, threshold: float | None) -> bool:
    """Return whether a score and its label are different decisions."""
    return score != label if threshold is None else (score >= threshold) != (label >= threshold)


def settings_of(label: str, kind: str, description: str, config: Mapping[str, Any] | None, source: str) -> str:
    """Describe a grader for a model: its settings, or its source if it has none."""
    what = _encode(config) if config is not None else source
    parts = [f"{label} ({kind.replace('_', ' ')})", description, what]
    return cut("\n\n".join(part for part in parts if part), _SETTINGS_CHARACTERS)


def cut(text: str, most: int) -> str:
    """Return the text; if it is too long, its beginning and the number of omitted characters."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _number(value: float) -> str:
    """The number with all of its digits, so that different scores and labels do not look equal."""
    return repr(float(value)).removesuffix(".0")
