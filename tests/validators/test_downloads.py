import ast
from pathlib import Path

import pytest

from validators import downloads


@pytest.mark.parametrize(
    ("text", "call", "why"),
    [
        ("import tiktoken\nX = tiktoken.get_encoding('o200k_base')", "tiktoken.get_encoding", "no network"),
        ("from tiktoken import encoding_for_model as e\nX = e('gpt-4o')", "tiktoken.encoding_for_model", "no network"),
        ("import nltk\nX = nltk.download('punkt')", "nltk.download", "no network"),
        ("import transformers as t\nX = t.AutoTokenizer.from_pretrained('gpt2')", "from_pretrained", "no network"),
        ("import spacy\nX = spacy.load('en_core_web_sm')", "spacy.load", "the package 'en_core_web_sm'"),
        ("from nltk.corpus import stopwords\nX = stopwords.words('english')", "stopwords.words", "data of nltk"),
        ("import nltk\nX = nltk.corpus.wordnet.synsets('a')", "nltk.corpus.wordnet.synsets", "data of nltk"),
        ("from nltk.tokenize import word_tokenize\nX = word_tokenize('a')", "word_tokenize", "data of nltk"),
        ("import textstat\nX = textstat.flesch_reading_ease('a')", "flesch_reading_ease", "data of nltk"),
    ],
)
def test_files_that_a_package_looks_for_are_warned_of(text: str, call: str, why: str) -> None:
    (warning,) = downloads.warnings(ast.parse(text), ["/packages"])
    assert warning.startswith("line 2: `")
    assert f"{call}`" in warning
    assert why in warning
    assert any(hint in text for hint in downloads.HINTS)


@pytest.mark.parametrize(
    "text",
    [
        "import os, tiktoken\nos.environ['TIKTOKEN_CACHE_DIR'] = '/tmp'\nX = tiktoken.get_encoding('o200k_base')",
        "import os, spacy\nX = spacy.load(os.environ['ENVIRONMENT_DATA'] + '/model')\nY = spacy.blank('en')",
        "import spacy\nX = spacy.load('model_in_packages')",
        "import nltk\nX = nltk.PorterStemmer().stem('a')\nY = nltk.tokenize.wordpunct_tokenize('a')",
        "import textstat\nX = textstat.lexicon_count('a')",
        "def load(name): return name\nclass spacy: load = load\nX = spacy.load('en_core_web_sm')",
    ],
)
def test_what_the_packages_have_is_not(text: str, tmp_path: Path) -> None:
    (tmp_path / "model_in_packages").mkdir()
    (tmp_path / "model_in_packages" / "__init__.py").touch()
    assert downloads.warnings(ast.parse(text), [str(tmp_path)]) == []


def test_data_of_nltk_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVIRONMENT_DATA", "/data")
    text = "from nltk.corpus import stopwords\nX = stopwords.words('english')"
    assert downloads.warnings(ast.parse(text), ["/packages"]) == []
