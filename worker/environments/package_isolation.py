"""The isolation of graders with packages. Known packages never run text that they receive."""

from collections.abc import Iterable
from typing import NamedTuple

from gradebox.schemas import Isolation, Report

# They run no text, however a grader calls them; of numpy and scipy, the guest looks for the few names that do
# (guest/template/choose_isolation.py). In contrast, `sympify` of sympy does run text.
_PLAIN = frozenset({
    "annotated-types", "attrs", "editdistance", "jellyfish", "jsonschema", "jsonschema-specifications", "levenshtein",
    "numpy", "orjson", "python-levenshtein", "rapidfuzz", "referencing", "regex", "rpds-py", "scipy",
    "typing-extensions",
})  # fmt: skip
_SHOWN = 3
_WARNING = (
    "each completion is graded in a process of its own, which takes some milliseconds more, because packages of the "
    "environment may run text as code: {packages}. If your grader passes no part of a completion to a function that "
    'does, such as `sympy.sympify` or `pandas.eval`, choose isolation "batch": it is many times faster. '
    'Otherwise choose "completion": it is the same without this warning'
)


class Settled(NamedTuple):
    """The isolation to use, and a warning if `auto` became `completion` because of packages; else empty."""

    isolation: Isolation
    warning: str

    def warn(self, report: Report) -> Report:
        """Adds the warning to the report on a grader that was loaded, unless it asks: asks take longer than that."""
        if not self.warning or report.isolation is None or report.asks:
            return report
        return report.model_copy(update={"warnings": [*report.warnings, self.warning]})


def settle(isolation: Isolation, packages: Iterable[str]) -> Settled:
    """Resolves `auto` to `completion` if one of these packages may run code that a completion contains. Otherwise the
    guest resolves it from the source.
    """
    unknown = sorted({*packages} - _PLAIN)
    if isolation != "auto" or not unknown:
        return Settled(isolation, "")
    more = [f"and {len(unknown) - _SHOWN} more"] if len(unknown) > _SHOWN else []
    return Settled("completion", _WARNING.format(packages=", ".join([*unknown[:_SHOWN], *more])))
