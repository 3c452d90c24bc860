"""Tests of the packages that graders need most, each in a grader that scores, all in one environment.

The packages come from the index of this machine. Without an index, the tests are skipped.
"""

import json
from typing import NamedTuple

import pytest

from gradebox.schemas import Isolation
from sandbox.grader_source import GraderSource
from sandbox.limits import ENVIRONMENT_MEMORY_MB
from sandbox.pool.pool import Pool
from storage.environments.environment_builds import Made
from tests.wheels import skip_without_index, zip_of
from tests.worker.environments.conftest import Builds
from worker.environments.uv import BuildFailed

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

_PACKAGES = ("numpy", "scipy", "sympy==1.14", "math-verify", "nltk", "pydantic", "jsonschema", "rapidfuzz")
_DATA = {"corpora/stopwords/english": "the\non\nsat\n", "nltk_data/corpora/words/en": "cat\ndog\n"}


class Case(NamedTuple):
    """A grader, and its score of each completion."""

    source: str
    scores: dict[str, float]


CASES = {
    "numpy": Case(
        """
import numpy as np

async def grade(thread):
    matrix = np.array(eval(thread.completion()), dtype=float)
    return float(np.round(np.linalg.det(matrix), 6))
""",
        {"[[1, 2], [3, 4]]": -2.0, "[[2, 0], [0, 2]]": 4.0},
    ),
    "numpy's random numbers": Case(
        """
import numpy as np

async def grade(thread):
    return float(np.random.rand() == np.random.RandomState(0).rand())
""",
        {"a": 1.0, "b": 1.0},
    ),
    "numpy's random numbers, in the module body": Case(
        """
import numpy as np
FIRST = np.random.rand()

async def grade(thread):
    return float(FIRST == np.random.RandomState(0).rand())
""",
        {"a": 1.0, "b": 1.0},
    ),
    "numpy's random numbers, imported late": Case(
        """
async def grade(thread):
    from numpy.random import RandomState, rand
    return float(rand() == RandomState(0).rand())
""",
        {"a": 1.0, "b": 1.0},
    ),
    "scipy": Case(
        """
from scipy import optimize, stats

async def grade(thread):
    values = [float(part) for part in thread.completion().split()]
    root = optimize.brentq(lambda x: x**2 - 4, 0, 10)
    return round(float(stats.pearsonr(values, range(len(values))).statistic) * root, 6)
""",
        {"1 2 3 4": 2.0, "4 3 2 1": -2.0},
    ),
    "sympy": Case(
        """
import sympy

async def grade(thread):
    difference = sympy.sympify(thread.completion()) - sympy.sympify("(x + 1)**2")
    return float(sympy.simplify(difference) == 0)
""",
        {"x**2 + 2*x + 1": 1.0, "x**2 + 1": 0.0},
    ),
    "math-verify": Case(
        """
from math_verify import parse, verify

async def grade(thread):
    return float(verify(parse("$\\\\frac{1}{2}$"), parse(thread.completion())))
""",
        {"The answer is $0.5$.": 1.0, "It is \\boxed{\\frac{2}{4}}": 1.0, "It is $0.7$.": 0.0},
    ),
    "nltk": Case(
        """
from nltk.corpus import stopwords, words
from nltk.metrics.distance import edit_distance
from nltk.translate.bleu_score import sentence_bleu

STOP = set(stopwords.words("english"))

async def grade(thread):
    said = thread.completion().split()
    bleu = sentence_bleu(["the cat sat on the mat".split()], said)
    known = sum(word in words.words() for word in said)  # in a folder nltk_data
    return round(bleu + edit_distance("mat", said[-1]) + 10 * known + 100 * sum(word in STOP for word in said), 6)
""",
        {"the cat sat on the mat": 411.0, "the cat sat on the mats": 411.759836},
    ),
    "pydantic": Case(
        """
from pydantic import BaseModel, ValidationError

class Answer(BaseModel):
    value: int

async def grade(thread):
    try:
        return Answer.model_validate_json(thread.completion()).value
    except ValidationError:
        return -1
""",
        {'{"value": 7}': 7.0, '{"value": "seven"}': -1.0},
    ),
    "jsonschema": Case(
        """
import json
import jsonschema

CHECK = jsonschema.Draft202012Validator({"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}})

async def grade(thread):
    return float(CHECK.is_valid(json.loads(thread.completion())))
""",
        {'{"a": 1}': 1.0, '{"a": "x"}': 0.0, "[]": 0.0},
    ),
    "rapidfuzz": Case(
        """
from rapidfuzz import fuzz

async def grade(thread):
    return fuzz.ratio("the answer", thread.completion()) / 100
""",
        {"the answer": 1.0, "zzz": 0.0},
    ),
}


@pytest.fixture(scope="session")
def made(builds: Builds) -> Made:
    """One environment with all packages."""
    try:
        return builds(None, _PACKAGES, data=zip_of(_DATA))
    except BuildFailed as failed:
        skip_without_index(failed)
        raise


@pytest.mark.parametrize(
    ("name", "isolation"),
    [
        *((name, "completion") for name in CASES),
        *((name, "batch") for name in CASES if name.startswith("numpy")),
    ],
)
def test_a_grader_with_packages_scores(builder: Pool, made: Made, name: str, isolation: Isolation) -> None:
    case = CASES[name]
    source = GraderSource(
        case.source, isolation, memory_mb=ENVIRONMENT_MEMORY_MB, timeout_s=5.0, environment=made.sha256
    )
    lines = b"".join(json.dumps({"completion": completion}).encode() + b"\n" for completion in case.scores)

    with builder.grading(source) as grading:
        outcomes = grading.score(lines, 0, "packages@1")

    assert [outcome.score for outcome in outcomes] == list(case.scores.values()), outcomes


def test_it_is_locked_by_hashes(made: Made) -> None:
    names = {package.name for package in made.lock}
    assert {"numpy", "mpmath", "sympy"} <= names
    assert all(len(digest) == 64 for package in made.lock for digest in package.sha256)
    assert {package.version for package in made.lock if package.name == "sympy"} == {"1.14.0"}
