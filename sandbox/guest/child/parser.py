"""The fast JSON parser in the image of a sandbox: jiter, one extension module besides the standard library.

It reads a line in less than half the time of `json`'s scanner. It is loaded by its path, so that graders still have
only the standard library. It is written in Rust, because its input is untrusted. It reads what it accepts as `json`
does. It may refuse input that `json` accepts (a lone surrogate): the reader decides what is JSON, not this parser.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from typing import Any

PLACE = "/usr/lib/jiter/jiter.so"  # inside the sandbox, where no import searches


@cache
def fast_parser(place: str = PLACE) -> Callable[[bytes], Any]:
    """Loads the parser, which reads a value from bytes of JSON.

    Raises:
        ImportError: there is no parser at `place`.
    """
    loader = ExtensionFileLoader("jiter", place)
    module: Any = loader.create_module(ModuleSpec("jiter", loader, origin=place))
    loader.exec_module(module)
    # Without its cache of strings, of which each child would copy a quarter of a megabyte.
    # A bare NaN or Infinity is no JSON: the reader reports it.
    return partial(module.from_json, cache_mode="none", allow_inf_nan=False)
