import ast

import pytest

from validators import variables


@pytest.mark.parametrize(
    "text",
    [
        "import os\nasync def grade(thread):\n    return float(os.environ.get('MY_THRESHOLD') == '1')",
        "import os\nasync def grade(thread):\n    return float(os.environ['MY_THRESHOLD'])",
        "import os\nX = 1\nLIMIT = os.getenv('MY_THRESHOLD', '0')",
        "from os import environ, getenv\nX = [1]\nLIMIT = [getenv('MY_THRESHOLD'), environ['MY_THRESHOLD']]",
    ],
)
def test_a_variable_that_is_read_is_warned_of_once(text: str) -> None:
    (warning,) = variables.warnings(ast.parse(text))
    assert warning.startswith("line 3: the sandbox has no environment variable 'MY_THRESHOLD'")


@pytest.mark.parametrize(
    "text",
    [
        "import os\nWORDS = open(os.environ['ENVIRONMENT_DATA'] + '/words.txt')",
        "import os\nos.environ['OMP_NUM_THREADS'] = '1'",
        "import os\nX = os.environ['PATH']",
        "import os\nX = dict(os.environ)",
        "name = 'MY_THRESHOLD'\nX = settings.get('MY_THRESHOLD')",
        "import os\nos.environ['LIMIT'] = '3'\nX = os.environ['LIMIT']",
        "import os\nX = os.environ.setdefault('MODE', 'strict') + os.getenv('MODE')",
        "async def grade(thread):\n    return request.environ.get('PATH_INFO')",
    ],
)
def test_what_the_sandbox_has_or_the_grader_sets_is_not(text: str) -> None:
    assert variables.warnings(ast.parse(text)) == []
