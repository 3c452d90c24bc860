"""Evaluators: each scores a completion and explains the score.

`deterministic` and `exact_match` compute the score, `lm_judge` asks a model for it. `gradebox.reduction` reduces the
outcomes of a whole batch. Graders import this module inside the sandbox, so it imports only the standard library.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradebox.asks.model import Model
from gradebox.asks.schema import object_of
from gradebox.score import Score
from gradebox.sync_call import sync_call
from gradebox.thread import StringThread, completion_of

Field = str | Callable[[StringThread], Any]
"""The name of a field of a thread's metadata, or a function of the thread."""

_QUOTED_CHARACTERS = 1000
_PREDICTION, _TARGET = "prediction", "target"
_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")


class Deterministic:
    """Scores a completion by a function of the completion and its target: `evaluator(thread)`."""

    def __init__(self, eval_fn: Callable[[Any, Any], float], purpose: str, target: Field) -> None:
        """Make an evaluator from a function of the completion and its target that returns a number or a boolean.

        Args:
            eval_fn: a function of (prediction, target). An exception that it raises becomes an error of the grader.
            purpose: a description of what the function evaluates; it appears in the explanation.
            target: the name of a field of the thread's metadata, or a function of the thread.

        Raises:
            TypeError: `eval_fn` is not callable, or `target` is neither a name nor a function.
            ValueError: the purpose is empty.
        """
        if not callable(eval_fn):
            raise TypeError(f"eval_fn= takes a function of a prediction and a target, and got {eval_fn!r:.80}")
        self._eval_fn = eval_fn
        self._purpose = _purpose(purpose)
        self._target = _field(target, "target")

    def __call__(self, thread: StringThread) -> Score:
        """Score a thread; the explanation is the score's reason.

        Raises:
            ValueError: the thread has no completion or no target, or `eval_fn` does not return a number.
        """
        prediction, target = completion_of(thread), _value(self._target, thread, "target")
        score = sync_call("eval_fn=", self._eval_fn, prediction, target)
        if not isinstance(score, int | float):
            raise ValueError(f"eval_fn returned {score!r:.80}, and a score is a number: give each text one")
        return Score(
            score,
            f"The evaluation function for {self._purpose} compared the prediction {_quoted(prediction)} with the "
            f"target {_quoted(target)}, and gave the score {float(score):g}.",
        )


deterministic = Deterministic


def exact_match(target: Field) -> Deterministic:
    """Score 1 if the completion equals the target exactly, else 0. A target that is not a string is an error."""
    return Deterministic(_is_equal, purpose="exact match", target=target)


class LMJudge:
    """Scores a completion by asking a model: `await judge(thread)`. Create it at module level."""

    def __init__(
        self,
        messages: Sequence[Mapping[str, str]],
        model: str,
        target: Field | None = None,
        inputs: Mapping[str, Field] | None = None,
        scores: Mapping[str, float] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Make an evaluator that asks a model for a score and an explanation.

        Args:
            messages: dicts with `role` and `content`, in which `{prediction}`, `{target}` and the names of `inputs` are
                replaced by the thread's values. Inserted values are not searched for placeholders. Write `{{name}}` for
                the literal text `{name}`. Instructions on the reply's format are appended to the last message.
            model: the key of a model of the project.
            target: the name of a field of the thread's metadata, or a function of the thread.
            inputs: the same for each further placeholder.
            scores: the words that the model may answer with, and the number for each. Without it, the model answers
                with a number, true or false.
            temperature: sampling temperature; None for the model's default. The same holds for the next two.
            max_tokens: maximum number of tokens of the reply.
            seed: random seed, for servers that support it.

        Raises:
            TypeError: an input or the target is neither a name nor a function.
            ValueError: a placeholder has no value, no message contains `{prediction}`, an input is called prediction or
                target, or `scores` is invalid.
        """
        self._fields = {name: _field(field, name) for name, field in (inputs or {}).items()}
        if taken := {_PREDICTION, _TARGET} & self._fields.keys():
            raise ValueError(f"inputs= has the name {min(taken)!r}, which is a placeholder of its own: rename it")
        if target is not None:
            self._fields[_TARGET] = _field(target, _TARGET)
        self._messages = _templates(messages, {_PREDICTION, *self._fields})
        self._model = Model(model)
        self._scores = None if scores is None else _scores(scores)
        self._schema = _schema(self._scores)
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    async def __call__(self, thread: StringThread) -> Score:
        """Return the model's score, with its explanation as the reason.

        Raises:
            ModelError: there is no reply, or no reply with a score and an explanation.
            ValueError: the thread has no completion, or lacks an input or the target.
        """
        values = {_PREDICTION: completion_of(thread)}
        values |= {name: _value(field, thread, name) for name, field in self._fields.items()}
        messages = [{**message, "content": _filled(message["content"], values)} for message in self._messages]
        messages[-1]["content"] += f"\n\n{_how_to_answer(self._scores)}"
        reply = await self._model.chat(messages, self._schema, **self._options)
        said, explanation = reply.data["score"], reply.data["explanation"]
        score = self._scores[said] if self._scores is not None else float(said)
        return Score(score, explanation, details={"score": said})


lm_judge = LMJudge


def _is_equal(prediction: Any, target: Any) -> bool:
    if not isinstance(target, str):
        raise ValueError(f"the target is {target!r:.80}, and a completion can only equal a text: write str() around it")
    return bool(prediction == target)


def _purpose(purpose: object) -> str:
    if not isinstance(purpose, str) or not purpose.strip():
        raise ValueError(f"purpose= takes a text that says what the function is for, and got {purpose!r:.80}")
    return purpose


def _field(field: object, name: str) -> Any:
    if callable(field) or (isinstance(field, str) and field):
        return field
    raise TypeError(f"{name!r} is the name of a member of the metadata or a function of the thread, not {field!r:.80}")


def _value(field: Any, thread: StringThread, name: str) -> Any:
    if callable(field):
        return sync_call(repr(name), field, thread)
    if not isinstance(thread.metadata, Mapping) or thread.metadata.get(field) is None:
        raise ValueError(f"the thread's metadata has no {field!r:.80}, which is its {name}")
    return thread.metadata[field]


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    more = f"… ({len(text):,} characters)" if len(text) > _QUOTED_CHARACTERS else ""
    return f"{text[:_QUOTED_CHARACTERS]!r}{more}"


def _templates(messages: Sequence[Mapping[str, str]], known: set[str]) -> list[dict[str, str]]:
    templates = [dict(message) for message in messages]
    shown: set[str] = set()
    for number, message in enumerate(templates):
        if message.keys() != {"role", "content"} or not all(isinstance(text, str) for text in message.values()):
            raise ValueError(f"messages[{number}] is {message!r:.80}: write {{'role': 'user', 'content': '…'}}")
        shown |= {found[2] for found in _PLACEHOLDER.finditer(message["content"]) if found[2]}
    if unknown := sorted(shown - known):
        raise ValueError(
            f"the messages have the placeholder {{{unknown[0]}}}, and there are {', '.join(sorted(known))}: name it in "
            f"inputs=, or write {{{{{unknown[0]}}}}} for the text itself"
        )
    if _PREDICTION not in shown:
        raise ValueError("no message has the placeholder {prediction}, so the model would not see what it scores")
    return templates


def _filled(template: str, values: Mapping[str, Any]) -> str:
    def filled(found: re.Match[str]) -> str:
        if found[1]:
            return f"{{{found[1]}}}"
        value = values[found[2]]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _PLACEHOLDER.sub(filled, template)


def _scores(scores: Mapping[str, float]) -> dict[str, float]:
    if len(scores) < 2 or not all(isinstance(word, str) and word for word in scores):
        raise ValueError(f"scores= takes at least two words and the number of each, and got {scores!r:.80}")
    if wrong := [word for word, number in scores.items() if not isinstance(number, int | float)]:
        raise ValueError(f"scores= has {scores[wrong[0]]!r:.80} for {wrong[0]!r:.80}, and a score is a number")
    return {word: float(number) for word, number in scores.items()}


def _schema(scores: Mapping[str, float] | None) -> dict[str, Any]:
    score = {"type": ["number", "boolean"]} if scores is None else {"type": "string", "enum": list(scores)}
    return object_of({"explanation": {"type": "string"}, "score": score})


def _how_to_answer(scores: Mapping[str, float] | None) -> str:
    said = "a number, true or false" if scores is None else f"exactly one of {', '.join(map(json.dumps, scores))}"
    return (
        'Answer with one JSON object and nothing else. Its members: "explanation" (text, why the score is so) and '
        f'"score" ({said}).'
    )
