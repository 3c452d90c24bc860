"""Warns of models, corpora and other files that a package looks for on the machine or the network.

The sandbox has neither. A grader that catches the error may score differently from its author's machine.
"""

import _ast
import os
from collections.abc import Sequence
from importlib.machinery import PathFinder

from validators.syntax_tree import full_name, imported, nodes, told_once

HINTS = ("tiktoken", "spacy", "nltk", "textstat", "evaluate", "load_dataset", "_pretrained", "_download")
"""Texts of which a source has one if it calls such a function."""
_DOWNLOADING = frozenset(
    ("tiktoken.get_encoding", "tiktoken.encoding_for_model", "nltk.download", "evaluate.load", "datasets.load_dataset",
     "huggingface_hub.hf_hub_download", "huggingface_hub.snapshot_download")
)  # fmt: skip
_OF_NLTK = frozenset(
    ("word_tokenize", "sent_tokenize", "pos_tag", "ne_chunk", "WordNetLemmatizer", "meteor_score",
     "single_meteor_score", "SentimentIntensityAnalyzer")
)  # fmt: skip
# Parts of the names of functions of textstat that count syllables, for which it reads nltk's `cmudict`.
_OF_TEXTSTAT = ("dale_chall", "difficult", "flesch", "gunning", "linsear", "smog", "spache", "syllab", "text_standard")
_CAUGHT = "where the error is caught, the grader goes on without it"
_NO_NETWORK = f"`{{call}}` downloads files, and the sandbox has no network: {_CAUGHT}. {{remedy}}"
_NO_DATA = f"`{{call}}` reads data of nltk, and the environment has none: {_CAUGHT}. {{remedy}}"
_NO_MODEL = f"`{{call}}` needs the package {{name!r}}, which the sandbox does not have: {_CAUGHT}. {{remedy}}"
_REMEDY = "Send what it needs as the data of an environment, and load it from there"
_REMEDY_OF_CACHE = (
    "Send the folder of its cache as the data of an environment, and begin `grade` with "
    '`os.environ["TIKTOKEN_CACHE_DIR"] = os.environ["ENVIRONMENT_DATA"]`'
)


def warnings(tree: _ast.Module, folders: Sequence[str] = ()) -> list[str]:
    """A warning for each function that needs files which the sandbox does not have. `folders`: those of the packages
    that the grader may import.
    """
    known = imported(tree)
    calls = [node for node in nodes(tree) if isinstance(node, _ast.Call)]
    found = [(call.lineno, _missing(call, full_name(call.func, known), folders)) for call in calls]
    sets_cache = any(isinstance(node, _ast.Constant) and node.value == "TIKTOKEN_CACHE_DIR" for node in nodes(tree))
    return told_once((line, text) for line, text in found if text and not (sets_cache and "TIKTOKEN_CACHE_DIR" in text))


def _missing(call: _ast.Call, name: str, folders: Sequence[str]) -> str:
    """What the sandbox lacks for a call of the function with this full name; empty if it lacks nothing."""
    package, _, function = name.partition(".")
    last = name.rpartition(".")[2]
    argument = call.args[0].value if call.args and isinstance(call.args[0], _ast.Constant) else None
    if name in _DOWNLOADING or (last == "from_pretrained" and isinstance(argument, str)):
        return _NO_NETWORK.format(call=name[:100], remedy=_REMEDY_OF_CACHE if package == "tiktoken" else _REMEDY)
    if name == "spacy.load" and isinstance(argument, str) and not _is_there(argument, folders):
        return _NO_MODEL.format(call=name, name=argument[:100], remedy=_REMEDY)
    of_nltk = package == "nltk" and (function.startswith("corpus.") or last in _OF_NLTK)
    of_textstat = package == "textstat" and any(part in function for part in _OF_TEXTSTAT)
    if (of_nltk or of_textstat) and "ENVIRONMENT_DATA" not in os.environ:
        return _NO_DATA.format(call=name[:100], remedy=_REMEDY)
    return ""


def _is_there(model: str, folders: Sequence[str]) -> bool:
    return not model.isidentifier() or PathFinder.find_spec(model, folders) is not None
