"""A judge that decides whether a completion meets a criterion."""

from collections.abc import Mapping, Sequence
from json import JSONEncoder
from typing import Any, NotRequired, TypedDict

from gradebox.asks.model import Model
from gradebox.asks.schema import object_of
from gradebox.judges.binary_prompts import SYSTEM, USER
from gradebox.judges.fence import Fence
from gradebox.judges.fields import listed
from gradebox.judges.templates import Template
from gradebox.score import NotApplicable, Score
from gradebox.thread import StringThread, completion_of

SCORES = {"PASS": 1.0, "FAIL": 0.0}
_NOT_APPLICABLE = "NA"
_SCHEMA = object_of({"reasoning": {"type": "string"}, "score": {"type": "string", "enum": [*SCORES, _NOT_APPLICABLE]}})
_DEFAULT_REASONING = {True: "The answer meets the criterion.", False: "The answer does not meet the criterion."}
_encode = JSONEncoder(ensure_ascii=False).encode


class ExampleTurn(TypedDict):
    """One turn of an example."""

    role: str
    content: str


class Example(TypedDict):
    """A decided case: the turns before the answer, the last of which is the question; the answer; and whether it
    passes. `input` may be empty.
    """

    input: Sequence[ExampleTurn]
    output: str
    passes: bool
    reasoning: NotRequired[str | None]


class BinaryJudge:
    """Asks a model whether a completion meets a criterion: `await judge(thread)`. Create it at module level.

    The score is 1.0 or 0.0, with the model's reasoning as its reason. If the model answers that the criterion does not
    apply, `NotApplicable` is raised.
    """

    def __init__(
        self,
        criteria: str,
        model: str,
        examples: Sequence[Example] = (),
        system_template: str | None = None,
        user_template: str | None = None,
        template_variables: Mapping[str, Any] | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Make a judge.

        Args:
            criteria: the requirement on a completion, in words.
            model: the model's key in the project.
            examples: decided cases that the model should follow.
            system_template: the system message in Handlebars, with the variables of docs/judges.md; "" for none.
            user_template: the user message, likewise.
            template_variables: further variables; they override existing ones of the same name.
            temperature: sampling temperature; None for the model's default. The same holds for the next two.
            max_tokens: maximum number of tokens of the reply.
            seed: random seed, for servers that support it.

        Raises:
            ValueError: `criteria`, a template or an example is invalid.
        """
        if not isinstance(criteria, str) or not criteria.strip():
            raise ValueError("criteria= is a text that says what a completion must be")
        self._criteria = criteria
        self._model = Model(model)
        self._examples = [_shown(example, number) for number, example in enumerate(examples)]
        self._system = Template(SYSTEM if system_template is None else system_template, "system_template")
        self._user = Template(USER if user_template is None else user_template, "user_template")
        self._own = dict(template_variables or {})
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread.

        Raises:
            NotApplicable: the model answers that the criterion does not apply.
            ModelError: there is no verdict.
            ValueError: the thread does not end with an assistant turn, or a template prints a missing value.
        """
        values = self._values(thread)
        system, user = self._system.render(values), self._user.render(values)
        messages = [{"role": "system", "content": system}] if system.strip() else []
        reply = await self._model.chat([*messages, {"role": "user", "content": user}], _SCHEMA, **self._options)
        verdict, reasoning = reply.data["score"], reply.data["reasoning"]
        if verdict == _NOT_APPLICABLE:
            raise NotApplicable(reasoning)
        return Score(SCORES[verdict], reasoning, details={"verdict": verdict})

    def _values(self, thread: StringThread) -> dict[str, Any]:
        completion, context = completion_of(thread), thread.messages()
        last = next((number for number in reversed(range(len(context))) if context[number][0] == "user"), None)
        without = context if last is None else context[:last] + context[last + 1 :]
        return {
            "criteria": self._criteria,
            "examples": self._examples,
            "completion": completion,
            "last_user_turn_content": None if last is None else context[last][1],
            "context_str": listed(context),
            "context_str_without_last_user": listed(without),
            "turns": _as_dicts(thread.get_turns()),
            "context_turns": _as_dicts(context),
            "context_turns_without_last_user": _as_dicts(without),
            "mark": Fence([*(content for _, content in context), completion]).mark,
            "metadata": thread.metadata,
            "output_schema": _encode(_SCHEMA),
            **self._own,
        }

    def __repr__(self) -> str:
        return f"BinaryJudge({self._criteria!r:.80}, model={self._model.key!r})"


def _as_dicts(turns: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in turns]


def _shown(example: Example, number: int) -> dict[str, str]:
    """An example in the form in which templates receive it."""
    try:
        turns = [(turn["role"], turn["content"]) for turn in example["input"]]
        output, passes, reasoning = example["output"], example["passes"], example.get("reasoning")
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"examples[{number}] is not as it should be ({error!r:.80}): {_FORM}") from None
    texts = [output, reasoning or "", *(text for turn in turns for text in turn)]
    if not isinstance(passes, bool) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"examples[{number}] is not as it should be: {_FORM}")
    before, question = turns[:-1], turns[-1][1] if turns else ""
    verdict = {"reasoning": reasoning or _DEFAULT_REASONING[passes], "score": "PASS" if passes else "FAIL"}
    return {
        "context_str": "\n\n".join(f"{role}:\n{content}" for role, content in before),
        "user_question": question,
        "completion": output,
        "output_json": _encode(verdict),
    }


_FORM = (
    'write {"input": [{"role": "user", "content": "…"}], "output": "…", "passes": True, "reasoning": "…"}, where the '
    "reasoning may be left out"
)
