"""Writes completions.jsonl: 300 synthetic completions of maths, extraction, e-mail and code tasks.

`python -m examples.make_completions` writes the same file each time. Each line has metadata for all example graders.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path

from examples.code_tasks import FUNCTIONS, RARE_CODE, Sample, code, messages, sample_of

PATH = Path(__file__).with_name("completions.jsonl")
SEED = 20260101
COUNTS = {"maths": 120, "extraction": 75, "email": 50, "code": 55}

NAMES = ["Amara", "Björn", "Chen Wei", "Dolores", "Emeka", "Fátima", "Giulia", "Hiroshi", "Ines", "Joaquín", "Noor"]
CITIES = ["Lagos", "Malmö", "São Paulo", "Kraków", "Osaka", "Quito", "Winnipeg", "Hyderabad", "Tromsø", "Valparaíso"]
THINGS = ["apples", "postcards", "batteries", "notebooks", "candles", "seedlings", "tickets", "marbles"]
HOBBIES = ["chess", "rowing", "origami", "baking", "astronomy", "fencing", "birdwatching", "pottery"]
COMPANIES = ["northwind", "bluefern", "quartzline", "hellomoss", "tidewater", "paperkite", "orchardworks"]
REFUSALS = ["I'm sorry, but I can't help with that.", "As a language model I have no calculator.", "I don't know."]
ELSEWHERE = ["Entschuldigung, das weiß ich nicht.", "すみません、わかりません。", "Извините, не знаю.", "🤷", "לא יודע"]

# A realistic pattern that takes exponential time on a long run of words without an @ after it.
ENDLESS_PATTERN = r"^(\w+[.-]?)+@example\.com$"


def maths(rng: random.Random) -> Sample:
    """A word problem in the style of GSM8K, with a mostly right solution."""
    name, thing = rng.choice(NAMES), rng.choice(THINGS)
    boxes, each, given = rng.randint(3, 90), rng.randint(4, 120), rng.randint(1, 60)
    price, made = rng.randint(2, 19), boxes * each
    if rng.random() < 0.5:
        question = (
            f"{name} has {boxes} boxes with {each} {thing} in each. {name} gives {given} {thing} away. "
            f"How many {thing} are left?"
        )
        answer, unit = made - given, thing
        steps = (
            f"There are {boxes} * {each} = <<{boxes}*{each}={made}>>{made} {thing}.\nThen {made} - {given} = {answer}."
        )
    else:
        question = f"{name} buys {boxes} {thing} for ${price} each and pays ${given} for delivery. What is the total?"
        made = boxes * price
        answer, unit = made + given, "dollars"
        steps = f"The {thing} cost {boxes} * {price} = ${made}.\nWith delivery: {made} + {given} = {answer}."
    wrong = answer + rng.choice([-10, -1, 1, 2, 100])
    completion = rng.choice(
        [
            *[f"{steps}\n#### {answer}"] * 8,
            f"{steps}\n#### {answer:,}",
            f"{steps}\n#### ${answer:,}.00",
            f"{steps}\n#### {answer} {unit}.",
            f"{answer}",
            f"{steps} Therefore the answer is {answer}.",
            f"{steps}\nThe answer is **{answer}** {unit}",
            f"{steps}\n#### {wrong}",
            f"Let me think. {steps}\nTherefore: #### {wrong}",
            f"<think>{(steps + ' Wait, let me check. ') * rng.randint(2, 12)}</think>\n#### {answer}",
            f'{{"answer": {answer}}}',
            *REFUSALS[:1],
            rng.choice(ELSEWHERE),
            "",
        ]
    )
    return {
        "messages": messages(question + " End with #### and the number.", completion),
        "metadata": {
            "task": "maths",
            "answer": str(answer),
            "pattern": r"^####\s*\$?-?\d[\d,]*",
            "required": {"answer": "number"},
            "keywords": [thing, str(answer), "####"],
            "tests": [],
        },
    }


def extraction(rng: random.Random) -> Sample:
    """A person to describe as JSON, with typical faults of such JSON."""
    hobbies = rng.sample(HOBBIES, rng.randint(1, 3))
    person = {
        "name": rng.choice(NAMES),
        "age": rng.randint(18, 91),
        "city": rng.choice(CITIES),
        "hobbies": hobbies,
        "member": rng.random() < 0.5,
    }
    text = (
        f"{person['name']}, {person['age']}, lives in {person['city']} and likes {' and '.join(hobbies)}. "
        f"{'A member' if person['member'] else 'Not a member'} of the club."
    )
    right = json.dumps(person, ensure_ascii=False)
    forgotten = rng.choice(list(person))
    less = {key: value for key, value in person.items() if key != forgotten}
    completion = rng.choice(
        [
            *[right] * 3,
            json.dumps(person, ensure_ascii=False, indent=2),
            f"```json\n{json.dumps(person, ensure_ascii=False, indent=2)}\n```",
            f"Here is the JSON you asked for:\n\n{right}\n\nLet me know if you need anything else!",
            json.dumps({**person, "age": str(person["age"])}, ensure_ascii=False),
            json.dumps({**person, "hobbies": ", ".join(hobbies)}, ensure_ascii=False),
            json.dumps({**person, "member": "yes"}, ensure_ascii=False),
            json.dumps(less, ensure_ascii=False),
            right.replace('"', "'"),
            right[: rng.randint(10, len(right) - 1)],
            f"[{right}]",
            text,
            "{" * rng.randint(1, 400),
            "",
        ]
    )
    types = {"name": "string", "age": "number", "city": "string", "hobbies": "array", "member": "boolean"}
    return {
        "messages": messages(
            f"As a JSON object with the keys {', '.join(types)}:\n\n{text}", completion, "Answer in JSON."
        ),
        "metadata": {
            "task": "extraction",
            "answer": right,
            "pattern": r'^\s*\{\s*"name":',
            "required": types,
            "keywords": [person["name"], person["city"], *hobbies],
            "tests": [],
        },
    }


def email(rng: random.Random) -> Sample:
    """An e-mail address to find in a text."""
    company, role = rng.choice(COMPANIES), rng.choice(["support", "billing", "press", "jobs", "hello"])
    address = f"{role}@{company}.{rng.choice(['example', 'example.org', 'example.com'])}"
    text = f"{company.title()} has its office in {rng.choice(CITIES)}. For {role}, write to {address}, or call."
    completion = rng.choice(
        [
            *[address] * 4,
            f"You can reach them at {address}.",
            f"**{address}**",
            f"The address is <{address.upper()}>.",
            address.replace("@", " at "),
            address.replace("@", "@@"),
            f"{role}@{company}",
            f"Their office is in {rng.choice(CITIES)}.",
            json.dumps({"email": address}),
            rng.choice(REFUSALS),
            rng.choice(ELSEWHERE),
            "",
        ]
    )
    return {
        "messages": messages(f"{text}\n\nWhich e-mail address is for {role}?", completion),
        "metadata": {
            "task": "email",
            "answer": address,
            "pattern": r"\b[\w.+-]+@[\w-]+(\.[\w-]+)+\b",
            "required": {"email": "string"},
            "keywords": [role, company, address],
            "tests": [],
        },
    }


def samples() -> list[Sample]:
    """All samples, in the order of the file."""
    rng = random.Random(SEED)
    makers: dict[str, Callable[[random.Random], Sample]] = {
        "maths": maths,
        "extraction": extraction,
        "email": email,
        "code": code,
    }
    made = [makers[task](rng) for task, count in COUNTS.items() for _ in range(count)]
    _make_rare(made)
    rng.shuffle(made)
    return [{"id": f"sample-{n:04}", **sample} for n, sample in enumerate(made)]


def _make_rare(made: list[Sample]) -> None:
    """Inserts the few hostile or endless samples."""
    codes = [n for n, sample in enumerate(made) if sample["metadata"]["task"] == "code"]
    for n, text in zip(codes, RARE_CODE, strict=False):
        task = FUNCTIONS[n % len(FUNCTIONS)]
        made[n] = sample_of(task, f"```python\n{text.format(name=task[0], parameters=task[1])}\n```")
    emails = [sample for sample in made if sample["metadata"]["task"] == "email"]
    emails[0]["metadata"]["pattern"] = ENDLESS_PATTERN
    emails[0]["messages"][-1]["content"] = "the-address-is-somewhere-in-the-text-that-you-gave-me"
    for n, sample in enumerate(emails[1:4]):
        sample["messages"][-1]["content"] = "I looked at every line of it. " * (400 * (n + 1))


def main() -> None:
    """Writes the file."""
    lines = [json.dumps(sample, ensure_ascii=False, separators=(",", ":")) for sample in samples()]
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} samples in {PATH.name}, {PATH.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
