"""How modules of the standard library were set up, such as the precision of `decimal`."""

import calendar
import decimal
import importlib
import sys
import warnings
from collections.abc import Callable


def precision(context: decimal.Context) -> dict[str, object]:
    """What of a context changes results."""
    traps = sorted(signal.__name__ for signal, is_set in context.traps.items() if is_set)
    return {"prec": context.prec, "rounding": context.rounding, "traps": traps}


def _limits() -> dict[str, object]:
    return {"recursion limit": sys.getrecursionlimit(), "digits of an int": sys.get_int_max_str_digits()}


def _dialects() -> dict[str, object]:
    import csv

    return {"field size limit": csv.field_size_limit(), "dialects": ", ".join(sorted(csv.list_dialects()))}


def _locale() -> dict[str, object]:
    import locale

    return {name: locale.setlocale(getattr(locale, f"LC_{name}")) for name in ("COLLATE", "NUMERIC", "TIME")}


def _namespaces() -> object:
    return vars(importlib.import_module("xml.etree.ElementTree"))["_namespace_map"]


def _errors() -> str:
    found = {getattr(category, "__name__", "") for action, _, category, *_ in warnings.filters if action == "error"}
    return ", ".join(sorted(found - {"GraderWarning"}))  # no code of a grader causes that


SETTINGS: dict[str, tuple[str, Callable[[], object]]] = {
    "calendar": ("firstweekday()", calendar.firstweekday),
    "csv": ("settings", _dialects),
    "decimal": ("getcontext()", lambda: precision(decimal.getcontext())),
    "locale": ("setlocale()", _locale),
    "sys": ("limits", _limits),
    "warnings": ("errors", _errors),
    "xml.etree.ElementTree": ("namespaces", _namespaces),
}
"""Of each module, the name of a setting and a function that reads it."""
