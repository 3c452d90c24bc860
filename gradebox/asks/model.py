"""A model of the project."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from gradebox.asks import read_reply
from gradebox.asks.asking import ask, is_sendable, name
from gradebox.asks.errors import ModelError
from gradebox.asks.schema import checked, object_of, problem

_AGAIN = 2  # retries after a reply that does not fit
_ROLES = frozenset(("system", "user", "assistant"))
_REPLY_CHARACTERS = 4000

_T = TypeVar("_T")

Messages = str | Sequence[Mapping[str, str]]
"""One user message, or messages with a `role` and a `content`."""


class Reply(NamedTuple):
    """The reply of a model. `data` is its JSON value, if a schema was given; a number that is an `integer` there may be
    4.0. `usage` counts tokens: `input_tokens` and `output_tokens`, of the last ask if there were several.
    """

    text: str
    data: Any
    finish_reason: str
    usage: dict[str, int]


class Verdict(NamedTuple):
    """The option that a model chose, spelled as it was given, and the model's reasoning."""

    option: str
    reasoning: str | None


class Model:
    """A model by its key in the project. Create it at module level, so that the version records which models it
    asks."""

    def __init__(self, key: str) -> None:
        """Raises ValueError if the key is invalid."""
        self.key = name("model", key)

    async def chat(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        sample: int = 0,
    ) -> Reply:
        """Ask the model for a reply.

        Args:
            messages: one user message, or several messages.
            schema: a JSON Schema that the reply must fit. If a reply does not fit, the model is asked again, at most
                twice, and shown the problem. `gradebox.asks.schema` lists the supported keywords.
            temperature: sampling temperature; None for the model's default. The same holds for the next two.
            max_tokens: maximum number of tokens of the reply.
            seed: random seed, for servers that support it.
            sample: replies are stored, and the same ask gets the same reply: use another number for a new reply.

        Raises:
            ModelError: there is no reply, or no reply that fits.
            ValueError: the messages or the schema are invalid.
        """
        request = self._request(temperature, max_tokens, seed, sample)
        turns = _turns(messages)
        if schema is None:
            return _reply(await ask({**request, "messages": turns}), None)
        wanted = dict(schema)
        checked(wanted)

        def read(text: str, sent: list[str]) -> Any:
            data = read_reply.json_of(text, sent)
            if wrong := problem(data, wanted):
                raise ValueError(wrong)
            return data

        return _reply(*await self._fitting({**request, "schema": wanted}, turns, read))

    async def choose(
        self,
        prompt: Messages,
        options: Sequence[str],
        reasoning: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        sample: int = 0,
    ) -> Verdict:
        """Ask the model to choose one of the options.

        If a reply names no option, or names one only among other words, the model is asked again, at most twice. A
        reply is never mapped to the most similar option.

        Args:
            prompt: one user message, or several messages. Instructions on the reply's format are appended to the last.
            options: at least two different strings.
            reasoning: whether the model gives its reasoning first.
            temperature: see `chat`.
            max_tokens: see `chat`.
            seed: see `chat`.
            sample: see `chat`.

        Raises:
            ModelError: there is no reply, or none of the replies names an option.
            ValueError: the prompt or the options are invalid.
        """
        named = list(options)
        if len(named) < 2 or len(set(named)) < len(named) or not all(isinstance(o, str) and o.strip() for o in named):
            raise ValueError(f"options= takes at least two different texts, and got {options!r:.200}")
        turns = _turns(prompt)
        turns[-1] = {**turns[-1], "content": f"{turns[-1]['content']}\n\n{_how_to_choose(named, reasoning)}"}
        request = self._request(temperature, max_tokens, seed, sample) | {"schema": choice_schema(named, reasoning)}

        def read(text: str, sent: list[str]) -> Verdict:
            found = read_reply.option_of(text, named, sent)
            if found is None:
                raise ValueError(
                    f"it names none of the options {_listed(named)}, or not in the form that was asked for"
                )
            return Verdict(*found)

        failed = f"chose none of the options {_listed(named):.500}"
        return (await self._fitting(request, turns, read, failed))[1]

    def _request(
        self, temperature: float | None, max_tokens: int | None, seed: int | None, sample: int
    ) -> dict[str, Any]:
        given = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        options = {option: value for option, value in given.items() if value is not None}
        return {"ask": "model", "name": self.key, "sample": sample, **options}

    async def _fitting(
        self,
        request: dict[str, Any],
        turns: list[dict[str, str]],
        read: Callable[[str, list[str]], _T],
        failed: str = "",
    ) -> tuple[dict[str, Any], _T]:
        """The first reply that `read` takes, and what it returns for it. `read` gets the texts of `turns` too, and
        raises ValueError for any other.
        """
        wrong = text = ""
        texts = [turn["content"] for turn in turns]  # without its own replies, which it may repeat
        ended = f", asked {1 + _AGAIN} times"
        for asked in range(1 + _AGAIN):
            sent = {**request, "messages": turns}
            if asked and not is_sendable(sent):
                ended = f", asked {asked} of {1 + _AGAIN} times, because its reply is too long to be sent back"
                break
            answer = await ask(sent)
            text = answer["text"]
            try:
                return answer, read(text, texts)
            except ValueError as error:
                wrong = str(error)
            turns = [*turns, _turn("assistant", text), _turn("user", _ask_again(wrong))]
        failed = failed or f"did not answer as it was asked ({wrong})"
        raise ModelError("invalid_reply", f"the model {self.key!r} {failed}{ended}", reply=text[:_REPLY_CHARACTERS])

    def __repr__(self) -> str:
        return f"Model({self.key!r})"


def _turns(messages: Messages) -> list[dict[str, str]]:
    if isinstance(messages, str):
        return [_turn("user", messages)]
    turns = [dict(message) for message in messages]
    for number, turn in enumerate(turns):
        if turn.keys() != {"role", "content"} or turn["role"] not in _ROLES or not isinstance(turn["content"], str):
            raise ValueError(
                f"message {number} is {turn!r:.200}: write {{'role': 'user', 'content': '…'}}, where the role may also "
                "be system or assistant"
            )
    if not turns:
        raise ValueError("there is no message: give a text, or at least one message")
    return [_turn(**turn) for turn in turns]


def _turn(role: str, content: str) -> dict[str, str]:
    """A message with its members in a fixed order, so that equal asks have equal bytes. Half a surrogate pair, which
    occurs in completions and which no server takes, becomes its escape as text, as in a reason.
    """
    return {"content": content.encode("utf-8", "backslashreplace").decode(), "role": role}


def _reply(answer: dict[str, Any], data: Any) -> Reply:
    return Reply(answer["text"], data, answer.get("finish_reason", ""), answer.get("usage", {}))


def _ask_again(wrong: str) -> str:
    return f"This answer cannot be used: {wrong}. Answer again, with the JSON object alone and nothing around it."


def _listed(options: list[str]) -> str:
    return ", ".join(f'"{option}"' for option in options)


def _how_to_choose(options: list[str], reasoning: bool) -> str:
    why = '"reasoning" (text, why you choose so) and "option"' if reasoning else '"option"'
    return f"Answer with one JSON object and nothing else. Its members: {why}, exactly one of: {_listed(options)}."


def choice_schema(options: list[str], reasoning: bool) -> dict[str, Any]:
    """The schema of replies that choose between options."""
    properties: dict[str, Any] = {"reasoning": {"type": "string"}} if reasoning else {}
    return object_of({**properties, "option": {"type": "string", "enum": options}})
