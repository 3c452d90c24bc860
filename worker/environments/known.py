"""Known packages that never run text that they receive."""

from collections.abc import Iterable

# They run no text, however a grader calls them. In contrast, `sympify` of sympy does run text.
_PLAIN = frozenset({
    "annotated-types", "attrs", "editdistance", "jellyfish", "jsonschema", "jsonschema-specifications", "levenshtein",
    "orjson", "python-levenshtein", "rapidfuzz", "referencing", "regex", "rpds-py", "typing-extensions",
})  # fmt: skip


def may_run_text(packages: Iterable[str]) -> bool:
    """Whether one of these packages may run code that a completion contains."""
    return not _PLAIN.issuperset(packages)
