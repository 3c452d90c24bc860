"""The threads that are graded: generated, about 1.5 KB each, and the same on every machine.

They resemble real threads: they have an id and nested metadata, and half of their text is outside ASCII.
"""

import json
import random
import tempfile
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path

GRADERS = ("exact_match", "regex", "json_shape", "difflib_ratio")
SAYING = {"regex_reason": "regex", "regex_print": "regex"}  # the same scores as these, with a reason or a print
FOLDER = Path(__file__).parent / "graders"

Thread = dict[str, object]

_WORDS = str.split(
    "so then the we first know that each of them has about apples baskets hours price total number per week after "
    "which remaining therefore adding multiply together and subtract what was left gives altogether half twice many "
    "Natalia sold bought walked every day distance speed minutes cost dollars answer step because if now let us"
)
_OTHER_WORDS = str.split(
    "тогда мы сначала знаем каждый корзина яблоки часы цена всего число неделя после осталось поэтому "
    "складываем умножаем вместе вычитаем получаем половина "
    "首先 我们 知道 每个 篮子 苹果 小时 价格 总共 数字 每周 之后 剩下 因此 πόσο μήλα ώρες τιμή καλάθι συνολικά"
)
_SYSTEM = "You are a careful assistant. Think step by step, and end with the answer alone on a line after four hashes."
_SHAPE = {"steps": "array", "answer": "number", "unit": "string", "check": "object", "confidence": "number"}


def source(grader: str) -> str:
    """The source of a grader."""
    return (FOLDER / f"{grader}.py").read_text()


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gradebox-bench-")


def folder() -> Path:
    """The folder of thread files and service data. It is deleted when this process ends."""
    return Path(_temporary().name)


def file(count: int, grader: str = "regex") -> Path:
    """A file of `count` threads for this grader, as JSON lines. It is made once."""
    path = folder() / f"{'json' if grader == 'json_shape' else 'text'}-{count}.jsonl"
    if not path.exists():
        with path.open("w", encoding="utf-8") as lines:
            lines.writelines(_lines(count, grader))
    return path


def some(count: int, grader: str = "regex") -> list[Thread]:
    """`count` threads for this grader."""
    return [json.loads(line) for line in _lines(count, grader)]


def _lines(count: int, grader: str) -> Iterator[str]:
    """Threads that repeat after 2,000, but with different ids: no two are equal."""
    chance = random.Random(1)
    made = [_thread(chance, grader == "json_shape") for _ in range(min(count, 2000))]
    for number in range(count):
        yield json.dumps({"id": _identity(number), **made[number % len(made)]}, ensure_ascii=False) + "\n"


def _identity(number: int) -> str:
    """An id of 8 to 36 characters: the number of a row, or a UUID."""
    if number % 2:
        return f"row-{number}".ljust(8, "_")
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def _thread(chance: random.Random, as_json: bool) -> Thread:
    answer = chance.randrange(2, 20_000)
    told = answer if chance.random() < 0.6 else chance.randrange(2, 20_000)
    steps = [_sentence(chance) for _ in range(6)]
    messages = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": " ".join(_sentence(chance) for _ in range(4))},
        {"role": "assistant", "content": _json(chance, steps, told) if as_json else _text(chance, steps, told)},
    ]
    metadata = {
        "answer": str(answer),
        "expected": f"#### {answer:,}",
        "reference": "\n".join([*steps[-2:], f"#### {answer:,}"])[-200:],
        "shape": _SHAPE,
        "source": {"dataset": "made-up", "split": "train", "tags": ["math", {"level": answer % 5}]},
    }
    return {"messages": messages, "metadata": metadata}


def _text(chance: random.Random, steps: list[str], told: int) -> str:
    marker = "####" if chance.random() < 0.9 else "The answer is"
    return "\n".join([*steps, f"{marker} {told:,}"])


def _json(chance: random.Random, steps: list[str], told: int) -> str:
    """An object in a code block. One key may be missing."""
    value = {"steps": steps[2:], "answer": told, "unit": "apples", "check": {"sum": told}, "confidence": 0.9}
    value.pop(chance.choice([*value, "nothing"]), None)
    return f"Here it is:\n```json\n{json.dumps(value, indent=1)}\n```"


def _sentence(chance: random.Random) -> str:
    words = " ".join(chance.choices(_WORDS if chance.random() < 0.3 else _OTHER_WORDS, k=12))
    return f"{words.capitalize()}, {chance.randrange(2, 90)} + {chance.randrange(2, 90)}."
