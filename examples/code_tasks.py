"""The code tasks of completions.jsonl: small functions, and typical model answers."""

import random
from typing import Any

Sample = dict[str, Any]

# Name, parameters, body, a wrong body, tests.
Task = tuple[str, str, str, str, list[tuple[str, Any]]]
FUNCTIONS: list[Task] = [
    ("add", "a, b", "return a + b", "return a - b", [("add(2, 3)", 5), ("add(-1, 1)", 0), ("add(0.5, 0.5)", 1)]),
    (
        "is_palindrome",
        "text",
        "letters = [c.lower() for c in text if c.isalnum()]\n    return letters == letters[::-1]",
        "return text == text[::-1]",
        [
            ("is_palindrome('level')", True),
            ("is_palindrome('No lemon, no melon')", True),
            ("is_palindrome('ab')", False),
        ],
    ),
    (
        "fizzbuzz",
        "n",
        "words = ('Fizz' if n % 3 == 0 else '') + ('Buzz' if n % 5 == 0 else '')\n    return words or str(n)",
        "if n % 3 == 0:\n        return 'Fizz'\n    if n % 5 == 0:\n        return 'Buzz'\n    return str(n)",
        [("fizzbuzz(3)", "Fizz"), ("fizzbuzz(10)", "Buzz"), ("fizzbuzz(30)", "FizzBuzz"), ("fizzbuzz(7)", "7")],
    ),
    (
        "factorial",
        "n",
        "result = 1\n    for i in range(2, n + 1):\n        result *= i\n    return result",
        "result = 1\n    for i in range(2, n):\n        result *= i\n    return result",
        [("factorial(0)", 1), ("factorial(5)", 120), ("factorial(10)", 3628800)],
    ),
    (
        "count_vowels",
        "text",
        "return sum(c in 'aeiou' for c in text.lower())",
        "return sum(c in 'aeiou' for c in text)",
        [("count_vowels('banana')", 3), ("count_vowels('OUTER')", 3), ("count_vowels('')", 0)],
    ),
    (
        "flatten",
        "rows",
        "return [item for row in rows for item in row]",
        "return sum(rows)",
        [("flatten([[1, 2], [3]])", [1, 2, 3]), ("flatten([])", []), ("flatten([[], ['a']])", ["a"])],
    ),
    (
        "word_counts",
        "text",
        "counts = {}\n    for word in text.split():\n        counts[word] = counts.get(word, 0) + 1\n    return counts",
        "return {word: 1 for word in text.split()}",
        [("word_counts('a b a')", {"a": 2, "b": 1}), ("word_counts('')", {}), ("word_counts('x')", {"x": 1})],
    ),
    (
        "gcd",
        "a, b",
        "while b:\n        a, b = b, a % b\n    return a",
        "return min(a, b)",
        [("gcd(12, 18)", 6), ("gcd(7, 5)", 1), ("gcd(0, 9)", 9)],
    ),
]
# Other typical answers. {name} and {parameters} are those of the requested function.
ODD_CODE = [
    "import sys\nsys.exit(0)\n\ndef {name}({parameters}):\n    return None",
    "import os\nprint('all tests passed')\nos._exit(0)",
    "def {name}({parameters})\n    return 1",
    "import numpy as np\n\ndef {name}({parameters}):\n    return np.array([1])",
    "def {name}({parameters}):\n    raise NotImplementedError",
    "class Always:\n    def __eq__(self, other): return True\n\ndef {name}({parameters}):\n    return Always()",
    "print('{{\"value\": 1}}')\nassert True\n\ndef {name}({parameters}):\n    print('PASSED')",
]
# Each of these is in the file once.
RARE_CODE = [
    "def {name}({parameters}):\n    while True:\n        pass",
    "import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)\n\ndef {name}({parameters}):\n    return 1",
    "def {name}({parameters}):\n    return open('/etc/passwd').read()",
]


def code(rng: random.Random) -> Sample:
    """A request for a small function, with a right, wrong, broken or hostile answer."""
    task = rng.choice(FUNCTIONS)
    name, parameters, body, wrong_body, _ = task
    right, wrong = (f"def {name}({parameters}):\n    {text}" for text in (body, wrong_body))
    completion = rng.choice(
        [
            *[f"```python\n{right}\n```"] * 5,
            f"Sure! Here is `{name}`:\n\n```python\n{right}\n```\n\nIt runs in linear time.",
            f"```py\n{right}\n\nprint({name})\nprint('done')\n```",
            f"```python\n{wrong}\n```",
            f"I think this works:\n```python\n{wrong}\n```",
            right,
            f"```python\n{rng.choice(ODD_CODE).format(name=name, parameters=parameters)}\n```",
            "",
        ]
    )
    return sample_of(task, completion)


def sample_of(task: Task, completion: str) -> Sample:
    """The sample of a task with this completion."""
    name, parameters, body, _, tests = task
    return {
        "messages": messages(f"Write a Python function `{name}({parameters})`. Answer with a code block.", completion),
        "metadata": {
            "task": "code",
            "answer": f"```python\ndef {name}({parameters}):\n    {body}\n```",
            "pattern": rf"^def {name}\(",
            "required": {"code": "string"},
            "keywords": [name, "def", "return"],
            "tests": [{"call": call, "expect": expect} for call, expect in tests],
        },
    }


def messages(question: str, completion: str, system: str | None = None) -> list[dict[str, str]]:
    """The turns of a sample."""
    before = [{"role": "system", "content": system}] if system else []
    return [*before, {"role": "user", "content": question}, {"role": "assistant", "content": completion}]
