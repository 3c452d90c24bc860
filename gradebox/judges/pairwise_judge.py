"""A judge that compares responses to one prompt."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Literal, NamedTuple

from gradebox.asks.asking import MOST_ASKS
from gradebox.asks.errors import ModelError
from gradebox.asks.model import Model
from gradebox.judges import fields
from gradebox.judges import pairwise_prompts as prompts
from gradebox.judges.bounded_details import bounded
from gradebox.judges.criterion import ContextFields, Criterion
from gradebox.judges.direct_judge import OnBias
from gradebox.judges.read_criterion import field_of, read
from gradebox.judges.setting_checks import check_choice, check_flags
from gradebox.judges.together import together
from gradebox.score import DETAILS_BYTES, GROUP_BYTES, Score
from gradebox.thread import StringThread

Contests = Literal["all_pairs", "at_once"]
"""All pairs of responses, each pair once; or one contest of all responses with one winner."""

_TIE = "tie"
_FEWEST = 2
_MOST_AT_ONCE = 128  # the details of each response name all others
_DETAILS_SHARE = 3 / 4  # of GROUP_BYTES


class _Material(NamedTuple):
    """What the model is shown: the criterion, the text of each response, and the context by displayed name."""

    criterion: Criterion
    texts: Sequence[str]
    context: Mapping[str, str]


class _Contest(NamedTuple):
    """The positions of the members and of the winner; None for a tie."""

    members: tuple[int, ...]
    winner: int | None
    reason: str | None
    is_biased: bool | None  # None if only one order was asked


class _Lost(NamedTuple):
    """A contest without a result."""

    members: tuple[int, ...]
    error: ModelError
    is_biased: bool | None = None  # True if both orders were decided, and differ


class PairwiseJudge:
    """Asks a model which of several responses is better: `await judge(threads)`. Create it at module level.

    The score of a response is its win rate: the number of contests that it won, with a tie counting half, divided by
    the number of contests that it took part in.
    """

    def __init__(
        self,
        criterion: str | Mapping[str, Any] | Criterion,
        model: str,
        contests: Contests = "all_pairs",
        allow_ties: bool = False,
        check_positional_bias: bool = False,
        on_bias: OnBias = "keep",
        to_evaluate: str | None = None,
        context_fields: ContextFields = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Make a judge.

        Args:
            criterion: what makes a response better: a text, the name of a predefined criterion, `{"description",
                "name"?, "to_evaluate"?, "context_fields"?}` or a `Criterion`. Its options are ignored. Or
                `{"field": "metadata.criterion"}`, if each group has its own.
            model: the model's key in the project.
            contests: "all_pairs", each pair of responses once; or "at_once", one contest of all responses.
            allow_ties: whether the model may choose a tie.
            check_positional_bias: whether each contest is repeated with the responses in reverse order.
            on_bias: what happens if the repetition has another winner: the first decision is kept ("keep"), it is a tie
                ("tie"), or the contest has no result ("error").
            to_evaluate: the field that is judged, overriding the criterion's.
            context_fields: the fields of the first thread shown beside it, overriding the criterion's.
            temperature: sampling temperature; None for the model's default. The same holds for the next two.
            max_tokens: maximum number of tokens of a reply.
            seed: random seed, for servers that support it.

        Raises:
            ValueError: a setting is invalid; the message names it.
        """
        check_choice("contests", contests, Contests)
        check_choice("on_bias", on_bias, OnBias)
        check_flags(allow_ties=allow_ties, check_positional_bias=check_positional_bias)
        self._model = Model(model)
        self._to_evaluate = to_evaluate
        self._context_fields = context_fields
        self._field = field_of(criterion)
        self._criterion = None if self._field else self._settled(read(criterion, compares=True))
        self._compares_all = contests == "at_once"
        self._allows_ties = allow_ties
        self._checks_bias = check_positional_bias
        self._on_bias = on_bias
        self._options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}

    async def __call__(self, threads: list[StringThread]) -> list[Score | Exception]:
        """Score each response. A response that took part in a contest without a result gets that contest's error
        instead.

        Raises:
            ValueError: there are fewer than two responses, more than can be asked about, one lacks a field, or they
                have several criteria.
        """
        places = range(len(threads))
        if len(places) < _FEWEST:
            raise ValueError(f"a comparison takes two responses or more, and got {len(places)}")
        contests = [tuple(places)] if self._compares_all else [*combinations(places, 2)]
        asks = len(contests) * (2 if self._checks_bias else 1)
        if asks > MOST_ASKS:
            raise ValueError(f"{len(places)} responses take {asks} asks, and {MOST_ASKS} may be made: compare fewer")
        if self._compares_all and len(places) > _MOST_AT_ONCE:
            raise ValueError(f"one contest takes {_MOST_AT_ONCE} responses, and got {len(places)}: compare fewer")
        criterion = self._criterion or self._own_criterion(threads)
        texts = [fields.text_of(thread, criterion.to_evaluate) for thread in threads]
        material = _Material(criterion, texts, fields.context_of(threads[0], criterion.context_fields))
        held = await together([partial(self._held, members, material) for members in contests])
        return self._scores(criterion.label, len(threads), held)

    def _own_criterion(self, threads: list[StringThread]) -> Criterion:
        found, *others = [fields.value_of(thread, self._field) for thread in threads]
        if any(other != found for other in others):
            raise ValueError(f"the responses have several criteria in {self._field!r:.80}: a group is compared by one")
        return self._settled(read(found, compares=True))

    def _settled(self, criterion: Criterion) -> Criterion:
        """The criterion with the fields of this judge in place of its own. Raises ValueError if one is no name."""
        shown = criterion.context_fields if self._context_fields is None else self._context_fields
        settled = criterion._replace(to_evaluate=self._to_evaluate or criterion.to_evaluate, context_fields=shown)
        fields.check_names("to_evaluate", settled.to_evaluate)
        fields.check_names("context_fields", settled.context_fields)
        return settled

    async def _held(self, members: tuple[int, ...], material: _Material) -> _Contest | _Lost:
        orders = [members, members[::-1]] if self._checks_bias else [members]
        try:
            decided = await together([partial(self._decided, order, material) for order in orders])
        except ModelError as error:
            return _Lost(members, error)
        winner, reason = decided[0]
        is_biased = decided[1][0] != winner if self._checks_bias else None
        if is_biased and self._on_bias == "error":
            message = "the order of the responses decides, so the contest has no result"
            return _Lost(members, ModelError("failed", message), is_biased)
        if is_biased and self._on_bias == "tie":
            winner = None
        return _Contest(members, winner, reason, is_biased)

    async def _decided(self, order: Sequence[int], material: _Material) -> tuple[int | None, str | None]:
        """The winner's position, and the reasoning. The model sees a response only under its number in this order."""
        names = [f"response {number}" for number in range(1, len(order) + 1)]
        shown = dict(zip(names, [material.texts[place] for place in order], strict=True))
        options = [*names, _TIE] if self._allows_ties else names
        messages = prompts.messages(material.criterion, shown, material.context, self._allows_ties)
        verdict = await self._model.choose(messages, options, True, **self._options)
        winner = None if verdict.option == _TIE else order[names.index(verdict.option)]
        return winner, verdict.reasoning

    def _scores(self, label: str, count: int, held: Sequence[_Contest | _Lost]) -> list[Score | Exception]:
        lost = {place: one.error for one in reversed(held) if isinstance(one, _Lost) for place in one.members}
        contests = [one for one in held if isinstance(one, _Contest)]
        own = {place: [one for one in contests if place in one.members] for place in range(count) if place not in lost}
        rates = {place: _win_rate(place, mine) for place, mine in own.items()}
        return [
            _missing(place, lost[place], held)
            if place in lost
            else self._score(label, place, count, own[place], rates, is_ranked=not lost)
            for place in range(count)
        ]

    def _score(
        self, label: str, place: int, count: int, own: Sequence[_Contest], rates: Mapping[int, float], is_ranked: bool
    ) -> Score:
        rate = rates[place]
        details: dict[str, Any] = {
            "criterion": label,
            "response": place + 1,
            "contests": [_reported(place, contest) for contest in own],
            "win_rate": rate,
            # If a contest has no result, the ranking is unknown.
            "ranking": 1 + sum(other > rate for other in rates.values()) if is_ranked else None,
        }
        won = sum(contest.winner == place for contest in own)
        most_bytes = min(DETAILS_BYTES, int(GROUP_BYTES * _DETAILS_SHARE / count))
        return Score(rate, f"won {won} of {len(own)} contests", details=bounded(details, most_bytes))

    def __repr__(self) -> str:
        what = self._field if self._criterion is None else self._criterion.label
        return f"PairwiseJudge({what!r:.80}, model={self._model.key!r})"


def _missing(place: int, error: ModelError, held: Sequence[_Contest | _Lost]) -> ModelError:
    """The error in place of a score. Its details have the contests that were decided in both orders."""
    contests = [
        {"against": _against(place, one.members), "biased": one.is_biased}
        for one in held
        if place in one.members and one.is_biased is not None
    ]
    details = {"response": place + 1, "contests": contests} if contests else None
    return ModelError(error.kind, error.message, error.retryable, error.reply, details)


def _win_rate(place: int, own: Sequence[_Contest]) -> float:
    won = sum(1.0 if contest.winner == place else 0.5 if contest.winner is None else 0.0 for contest in own)
    return won / len(own)


def _against(place: int, members: Sequence[int]) -> list[int]:
    """The numbers of the other responses of a contest, from 1."""
    return [other + 1 for other in members if other != place]


def _reported(place: int, contest: _Contest) -> dict[str, Any]:
    """A contest from the view of one response; `won` is None for a tie, `biased` if only one order was asked."""
    return {
        "against": _against(place, contest.members),
        "won": None if contest.winner is None else contest.winner == place,
        "biased": contest.is_biased,
        "reason": contest.reason,
    }
