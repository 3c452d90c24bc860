import ast

import pytest

from validators import generators


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import random\nR = random.Random()", "Random"),
        ("from numpy.random import default_rng\nR = default_rng()", "default_rng"),
        ("import numpy as np\nX = np.random.default_rng().random(3)", "default_rng"),
        ("import numpy as np\nclass A: R = np.random.RandomState()", "RandomState"),
        ("import numpy as np\nnp.random.seed(1); R = np.random.RandomState()", "RandomState"),
    ],
)
def test_a_generator_that_differs_between_sandboxes_is_warned_of(text: str, name: str) -> None:
    (warning,) = generators.warnings(ast.parse(text))
    assert warning.startswith(f"line 2: `{name}()` has no seed")
    assert any(hint in text for hint in generators.HINTS)


@pytest.mark.parametrize(
    "text",
    [
        "import random\nR = random.Random(5)",
        "import numpy as np\nR = np.random.default_rng(seed=5)",
        "import random\nR = random.Random()\nR.seed(5)",
        "import random\nasync def grade(thread):\n    return random.Random().random()",  # the second test run differs
        "import random\nmake = lambda: random.Random()",
        "import random\nR = random.SystemRandom()",
    ],
)
def test_others_are_not(text: str) -> None:
    assert generators.warnings(ast.parse(text)) == []
