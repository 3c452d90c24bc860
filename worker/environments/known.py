"""What is known of packages: which of them never run what they are given as text."""

from collections.abc import Iterable

# However a grader calls them. sympy's `sympify` does run text, for one.
_PLAIN = frozenset({
    "annotated-types", "attrs", "editdistance", "jellyfish", "jsonschema", "jsonschema-specifications", "levenshtein",
    "orjson", "python-levenshtein", "rapidfuzz", "referencing", "regex", "rpds-py", "typing-extensions",
})  # fmt: skip


def may_run_text(packages: Iterable[str]) -> bool:
    """Whether one of these packages may run code that a completion carries."""
    return not _PLAIN.issuperset(packages)
