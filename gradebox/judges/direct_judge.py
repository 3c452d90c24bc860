"""A judge that chooses one of the options of a criterion, each of which has a score."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import sqrt
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from gradebox.asks.asking import MOST_ASKS
from gradebox.asks.errors import ModelError
from gradebox.asks.model import Model
from gradebox.asks.schema import object_of
from gradebox.judges import direct_prompts as prompts
from gradebox.judges import fields
from gradebox.judges.bounded_details import bounded
from gradebox.judges.criterion import ContextFields, Criterion, Option
from gradebox.judges.means import mean
from gradebox.judges.read_criterion import field_of, read
from gradebox.judges.setting_checks import check_choice, check_flags
from gradebox.judges.together import together
from gradebox.score import Score
from gradebox.thread import StringThread

OnBias = Literal["keep", "tie", "error"]
"""What happens if the reverse order of the options changes the decision: "keep" keeps the first decision, "tie" scores
the mean of both options, "error" gives no score.
"""

_SAMPLES = 3  # if self_consistency=True
_PERSONA = object_of({name: {"type": "string", "minLength": 1} for name in ("persona_name", "persona_description")})


class DecidedCase(TypedDict):
    """A decided text: its option, which must be one of the criterion's; optionally the reasoning and the context."""

    output: str
    option: str
    reasoning: NotRequired[str | None]
    context: NotRequired[Mapping[str, str] | None]


class PositionalBias(ModelError):
    """The judge decides differently with the options in reverse order, and `on_bias` is "error". Its `kind` is
    `failed`."""


class _Decision(NamedTuple):
    option: str
    reasoning: str | None
    feedback: str | None


class _Sample(NamedTuple):
    straight: _Decision
    reverse: _Decision | None
    score: float

    @property
    def is_biased(self) -> bool:
        return self.reverse is not None and self.reverse.option != self.straight.option


class DirectJudge:
    """Asks a model which option of a criterion applies to a completion: `await judge(thread)`. Create it at module
    level.

    `most_asks` is the number of asks for one completion, not counting retries of invalid replies.

    The score is the option's, with the model's reasoning as its reason. If a reply names none of the options, the model
    is asked again, at most twice; after that there is no score.
    """

    def __init__(
        self,
        criterion: str | Mapping[str, Any] | Criterion,
        model: str,
        steps: Literal[1, 2] = 1,
        to_evaluate: str | None = None,
        context_fields: ContextFields = None,
        check_positional_bias: bool = False,
        on_bias: OnBias = "keep",
        self_consistency: bool | int = False,
        feedback: bool = False,
        summary: bool = False,
        persona: bool = False,
        judge_description: str | None = None,
        examples: Sequence[DecidedCase] = (),
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Make a judge.

        Args:
            criterion: a text (Yes 1.0, No 0.0), the name of a predefined one, a dict or a `Criterion`; or
                `{"field": "metadata.criterion"}`, if each thread has its own.
            model: the model's key in the project.
            steps: 1: reasoning and option in one reply; 2: an assessment first, then the choice.
            to_evaluate: the field that is judged, overriding the criterion's.
            context_fields: the fields shown beside it, overriding the criterion's.
            check_positional_bias: whether to decide again with the options in reverse order.
            on_bias: what happens if the second decision differs: "keep", "tie" or "error"; see `OnBias`.
            self_consistency: number of samples; True for three. The score is the mean of all samples.
            feedback: whether to ask for changes to the text; the answer is in `details`.
            summary: whether to ask for a summary of the reasoning; the answer is in `details`.
            persona: whether the model first invents a suitable person as the judge.
            judge_description: who judges, in words, instead of "You judge one text by one criterion."
            examples: decided cases that the model is shown.
            temperature: sampling temperature; None for the model's default. The same holds for the next two.
            max_tokens: maximum number of tokens of a reply.
            seed: random seed, for servers that support it; it is increased by one for each further sample.

        Raises:
            ValueError: a setting is invalid; the message names it.
        """
        _check_choices(steps, on_bias, persona, judge_description)
        check_flags(check_positional_bias=check_positional_bias, feedback=feedback, summary=summary, persona=persona)
        self._model = Model(model)
        self._field = field_of(criterion)
        self._criterion = None if self._field else read(criterion)
        fields.check_names("context_fields", context_fields)
        self._to_evaluate = to_evaluate
        self._context_fields = context_fields
        self._examples = [_case(example, number) for number, example in enumerate(examples)]
        self._steps = steps
        self._checks_bias = check_positional_bias
        self._on_bias = on_bias
        self._samples = _samples(self_consistency)
        self._wants_feedback = feedback
        self._wants_summary = summary
        self._wants_persona = persona
        self._role = judge_description or prompts.ROLE
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
        self._seed = seed
        self.most_asks = (self._samples or 1) * (2 if check_positional_bias else 1) * steps + persona + summary
        if self.most_asks > MOST_ASKS:
            raise ValueError(
                f"this judge asks {self.most_asks} times for one completion, and may {MOST_ASKS}: sample less"
            )
        if self._criterion is not None:
            self._check(self._criterion)

    @property
    def scores(self) -> dict[str, float] | None:
        """The score of each option; None if each thread has its own criterion."""
        return None if self._criterion is None else self._criterion.scores()

    async def __call__(self, thread: StringThread) -> Score:
        """Score a thread.

        Raises:
            ModelError: there is no decision.
            PositionalBias: the decision depends on the order of the options, and `on_bias` is "error".
            ValueError: the thread lacks a field, or its criterion is invalid.
        """
        criterion = self._criterion_of(thread)
        fields_shown = criterion.context_fields if self._context_fields is None else self._context_fields
        text = fields.text_of(thread, self._to_evaluate or criterion.to_evaluate)
        material = prompts.Material(text, fields.context_of(thread, fields_shown), self._examples)
        persona = await self._persona(criterion) if self._wants_persona else None
        system = prompts.system(prompts.persona_role(*persona) if persona else self._role)
        samples = await self._sampled(criterion, material, system)
        if self._on_bias == "error":
            self._check_orders(criterion, samples)
        won, score = self._won(samples), mean([sample.score for sample in samples])
        details: dict[str, Any] = {"criterion": criterion.label, "option": won.straight.option}
        details["higher_is_better"] = criterion.higher_is_better
        if won.reverse is not None:
            details["positional_bias"] = self._bias(won, won.reverse, samples)
        if self._samples:
            details |= _spread(criterion, samples)
        if persona:
            details["persona"] = dict(zip(("name", "description"), persona, strict=True))
        if won.straight.feedback is not None:
            details["feedback"] = won.straight.feedback
        if self._wants_summary:
            details["summary"] = await self._summary(won.straight.reasoning)
        return Score(score, won.straight.reasoning, details=bounded(details))

    def _criterion_of(self, thread: StringThread) -> Criterion:
        if self._criterion is not None:
            return self._criterion
        criterion = read(fields.value_of(thread, self._field))
        self._check(criterion)
        return criterion

    def _check(self, criterion: Criterion) -> None:
        """Raises ValueError if the criterion does not fit this judge."""
        scores = criterion.scores()
        fields.check_names("context_fields", criterion.context_fields)
        fields.check_names("to_evaluate", self._to_evaluate or criterion.to_evaluate)
        for number, example in enumerate(self._examples):
            if example["option"] not in scores:
                raise ValueError(
                    f"examples[{number}] has the option {example['option']!r:.80}, and criterion {criterion.label!r} "
                    f"has {', '.join(map(repr, scores))}"
                )

    async def _sampled(self, criterion: Criterion, material: prompts.Material, system: str) -> list[_Sample]:
        orders: list[Sequence[Option]] = [criterion.options]
        if self._checks_bias:
            orders.append(criterion.options[::-1])
        numbers = range(self._samples or 1)
        decisions = await together(
            [
                partial(self._decided, criterion, order, material, system, number)
                for number in numbers
                for order in orders
            ]
        )
        scores, per = criterion.scores(), len(orders)
        return [self._sample(scores, decisions[number * per : (number + 1) * per]) for number in numbers]

    def _sample(self, scores: Mapping[str, float], decisions: Sequence[_Decision]) -> _Sample:
        straight, reverse = decisions[0], decisions[1] if len(decisions) > 1 else None
        sample = _Sample(straight, reverse, scores[straight.option])
        if reverse is None or self._on_bias != "tie" or not sample.is_biased:
            return sample
        return sample._replace(score=(scores[straight.option] + scores[reverse.option]) / 2)

    def _check_orders(self, criterion: Criterion, samples: Sequence[_Sample]) -> None:
        """Raises PositionalBias if both orders of a sample differ. Its details count the other samples too."""
        for sample in samples:
            if sample.reverse is not None and sample.is_biased:
                bias = self._bias(sample, sample.reverse, samples)
                raise PositionalBias(
                    "failed",
                    f"the order of the options decides: {sample.straight.option!r} as they stand, and "
                    f"{sample.reverse.option!r} in the reverse order. There is no score, since on_bias is 'error'",
                    details=bounded({"criterion": criterion.label, "positional_bias": bias}),
                )

    def _bias(self, shown: _Sample, reverse: _Decision, samples: Sequence[_Sample]) -> dict[str, Any]:
        """Whether both orders of the shown sample differ, its reverse option, and whether each sample's differ."""
        bias: dict[str, Any] = {"detected": shown.is_biased, "option": reverse.option}
        return {**bias, "samples": [sample.is_biased for sample in samples]} if self._samples else bias

    def _won(self, samples: Sequence[_Sample]) -> _Sample:
        """The first sample with the most frequent option; if several options tie, the one that was chosen first."""
        votes = Counter(sample.straight.option for sample in samples)
        most = max(votes.values())
        return next(sample for sample in samples if votes[sample.straight.option] == most)

    async def _decided(
        self, criterion: Criterion, options: Sequence[Option], material: prompts.Material, system: str, number: int
    ) -> _Decision:
        prompt = prompts.decision(criterion, options, material, self._steps == 2)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        names = [option.name for option in options]
        if self._steps == 1:
            return await self._chosen(messages, names, None, number)
        assessment = (await self._model.chat(messages, **self._drawn(number))).text
        if not assessment.strip():
            raise ModelError("invalid_reply", f"the model {self._model.key!r} gave an empty assessment")
        messages.append({"role": "assistant", "content": assessment})
        messages.append({"role": "user", "content": prompts.selection(criterion, options)})
        return await self._chosen(messages, names, assessment, number)

    async def _chosen(
        self, messages: list[dict[str, str]], names: list[str], assessment: str | None, number: int
    ) -> _Decision:
        """The model's choice, with its reasoning if there is no assessment yet."""
        has_reasoning = assessment is None
        if not self._wants_feedback:
            verdict = await self._model.choose(messages, names, has_reasoning, **self._drawn(number))
            return _Decision(verdict.option, verdict.reasoning if has_reasoning else assessment, None)
        last = {"role": "user", "content": prompts.with_feedback(messages[-1]["content"], names, has_reasoning)}
        reply = await self._model.chat([*messages[:-1], last], _form(names, has_reasoning), **self._drawn(number))
        return _Decision(reply.data["option"], reply.data.get("reasoning", assessment), reply.data["feedback"])

    async def _persona(self, criterion: Criterion) -> tuple[str, str]:
        reply = await self._model.chat(prompts.persona(criterion), _PERSONA, **self._drawn(0))
        return reply.data["persona_name"], reply.data["persona_description"]

    async def _summary(self, reasoning: str | None) -> str:
        return (await self._model.chat(prompts.summary(reasoning), **self._drawn(0))).text if reasoning else ""

    def _drawn(self, number: int) -> dict[str, Any]:
        """The options of an ask for this sample: replies are stored by sample number, so each number gets a new
        reply."""
        return {**self._options, "sample": number, "seed": None if self._seed is None else self._seed + number}

    def __repr__(self) -> str:
        what = self._field if self._criterion is None else self._criterion.label
        return f"DirectJudge({what!r:.80}, model={self._model.key!r})"


def _check_choices(steps: int, on_bias: str, persona: bool, judge_description: str | None) -> None:
    if steps not in (1, 2) or isinstance(steps, bool):
        raise ValueError(f"steps= is 1 or 2, and not {steps!r:.80}")
    check_choice("on_bias", on_bias, OnBias)
    if judge_description is not None and (not isinstance(judge_description, str) or not judge_description.strip()):
        raise ValueError("judge_description= is a text that says who judges")
    if persona and judge_description is not None:
        raise ValueError("persona=True makes up who judges, and judge_description= says it: give one of them")


def _samples(self_consistency: bool | int) -> int:
    """The number of samples; 0 if votes are not reported."""
    if isinstance(self_consistency, bool):
        return _SAMPLES if self_consistency else 0
    if not isinstance(self_consistency, int) or self_consistency < 0:
        raise ValueError(f"self_consistency= is true, false or a number of samples, and not {self_consistency!r:.80}")
    return self_consistency


def _spread(criterion: Criterion, samples: Sequence[_Sample]) -> dict[str, Any]:
    found = Counter(sample.straight.option for sample in samples)
    scores = [sample.score for sample in samples]
    middle = mean(scores)
    return {
        "votes": {option.name: found[option.name] for option in criterion.options if found[option.name]},
        "scores": scores,
        "spread": sqrt(mean([(score - middle) ** 2 for score in scores])),
        "score_rule": "mean of all samples",
    }


def _form(names: list[str], has_reasoning: bool) -> dict[str, Any]:
    text = {"type": "string"}
    reasoning = {"reasoning": text} if has_reasoning else {}
    return object_of({**reasoning, "option": {"type": "string", "enum": names}, "feedback": text})


def _case(example: DecidedCase, number: int) -> dict[str, Any]:
    try:
        output, option = example["output"], example["option"]
        reasoning, context = example.get("reasoning") or "", dict(example.get("context") or {})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"examples[{number}] is not as it should be ({error!r:.80}): {_CASE}") from None
    if not all(isinstance(text, str) for text in (output, option, reasoning, *context, *context.values())):
        raise ValueError(f"examples[{number}] is not as it should be: {_CASE}")
    fields.check_names(f"examples[{number}]: context", [*context])
    return {"output": output, "option": option, "reasoning": reasoning, "context": context}


_CASE = 'write {"output": "…", "option": "Yes", "reasoning"?: "…", "context"?: {"question": "…"}}'
