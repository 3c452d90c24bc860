import ast

import pytest

from validators import files


@pytest.mark.parametrize(
    "text",
    [
        "import os\nX = 1\nWORDS = open('words.txt').read() if os.path.exists('words.txt') else ''",
        "from pathlib import Path\nX = 1\nWORDS = Path('words.txt').read_text()",
        "import json\nFILE = 'words.txt'\nasync def grade(thread): return json.load(open(FILE))",
        "import pathlib\nFILE = pathlib.Path('words.txt')\nasync def grade(thread): return float(FILE.is_file())",
        "import glob, re\nX = 1\nasync def grade(thread): return len([open(path) for path in glob.glob('words.txt')])",
        "import numpy as np\nX = 1\nTABLE = np.load('words.txt')",
        "from pathlib import Path\nX = 1\nTEXTS = [each.read_text() for each in Path('words.txt').glob('*.txt')]",
        "import gzip\nX = 1\nTABLE = gzip.open('words.txt', 'rt')",
        "import numpy as np\nX = 1\nTABLE = np.fromfile('words.txt')",
        "import os\nX = 1\nSIZE = sum(len(names) for _, _, names in os.walk('words.txt'))",
    ],
)
def test_a_file_that_is_read_is_warned_of_once(text: str) -> None:
    (warning,) = files.warnings(ast.parse(text), runs_programs=False)
    assert warning.startswith("line 3: the sandbox has no file 'words.txt', and none of yours: write its content into")
    assert any(hint in text for hint in files.HINTS)


@pytest.mark.parametrize(
    "text",
    [
        "import os\nWORDS = open(os.environ['ENVIRONMENT_DATA'] + '/words.txt')",
        "import os\nfrom pathlib import Path\nWORDS = (Path(os.environ['ENVIRONMENT_DATA']) / 'words.txt').read_text()",
        "async def grade(thread):\n  open('/tmp/a.txt', 'w').write('a')\n  return len(open('/tmp/a.txt').read())",
        "async def grade(thread):\n  with open('a.txt', mode='w') as f: f.write('a')\n  return bool(open('a.txt'))",
        "import spacy\nX = spacy.load('en_core_web_sm')\nY = cache.exists('key')",
        "from pathlib import Path\nF = Path('a.txt')\nF.write_text('a')\nX = F.read_text()",
        "from pathlib import Path\nX = Path('/a/b.txt').suffix",
        "import webbrowser\nX = thread.metadata['path'].open()",
        "import json, re\nX = json.loads('{}')\nY = 'words.txt'.exists",
        "import os\nX = os.path.exists('/proc/self/status')",
        "async def grade(thread): return open(thread.metadata['file']).read()",
    ],
)
def test_what_the_sandbox_has_or_the_grader_writes_is_not(text: str) -> None:
    assert files.warnings(ast.parse(text), runs_programs=False) == []


@pytest.mark.parametrize(
    "text", ["import mimetypes as mt\nX = mt.guess_type('a')", "from mimetypes import guess_type\nguess_type('a')"]
)
def test_the_types_of_files_that_the_machine_knows_are_warned_of(text: str) -> None:
    (warning,) = files.warnings(ast.parse(text), runs_programs=True)
    assert "the sandbox has no file '/etc/mime.types'" in warning
    assert files.warnings(ast.parse(text.replace("mimetypes", "own")), True) == []
    assert files.warnings(ast.parse("def guess_type(text): ...\nguess_type('a')\nX.parser.guess_type('a')"), True) == []


def test_a_long_path_is_no_deep_recursion() -> None:
    tree = ast.parse("X = (Path('words')" + " / 'a'" * 700 + ").read_text()")
    (warning,) = files.warnings(tree, runs_programs=False)
    assert "'words'" in warning


def test_programs_may_write_files_in_the_working_folder() -> None:
    tree = ast.parse("import subprocess\nX = open('out.txt')\nY = open('/data/out.txt')")
    (warning,) = files.warnings(tree, runs_programs=True)
    assert "'/data/out.txt'" in warning
