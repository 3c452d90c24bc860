"""Check 1: the source compiles.

Runs in a sandbox with bounded time and memory, because `compile` can be attacked: 825 bytes of nested `try/finally`
take 9 s and 3.2 GB.
"""

from _ast import Module, PyCF_ONLY_AST
from typing import cast

from validators import own_modules
from validators.candidate import FILENAME, Candidate, CheckFailed


def check(candidate: Candidate) -> str:
    """Decodes once as UTF-8 and compiles that string, so a coding cookie has no effect."""
    try:
        candidate.text = candidate.source.decode("utf-8")
    except UnicodeDecodeError as error:
        line = candidate.source.count(b"\n", 0, error.start) + 1
        raise CheckFailed(
            f"the source is not UTF-8: byte 0x{candidate.source[error.start]:02x} on line {line}. "
            "Save the file as UTF-8 and upload it again.",
            line,
        ) from None
    if "\0" in candidate.text:
        line = candidate.text.count("\n", 0, candidate.text.index("\0")) + 1
        raise CheckFailed(f"the source has a null byte on line {line}. Remove it: Python source cannot hold one.", line)
    try:
        candidate.tree = _parsed(candidate.text, FILENAME)
        candidate.code = compile(candidate.tree, FILENAME, "exec", dont_inherit=True)
        candidate.modules = {path: _parsed(text, path) for path, text in own_modules.texts(candidate.tree).items()}
    except SyntaxError as error:
        message = f"{type(error).__name__}: {_short(error.msg)}{_shown(error)}"
        if error.filename != FILENAME:  # a module of the author, in the source
            raise CheckFailed(f"{_short(str(error.filename))}: {message}") from None
        raise CheckFailed(message, error.lineno or 0, error.offset or 0) from None
    except (RecursionError, MemoryError, OverflowError) as error:
        raise CheckFailed(
            f"the source is nested too deeply, or too long for `memory_mb`, to be compiled ({type(error).__name__}). "
            "Take the deepest expression or block apart, or raise `memory_mb`."
        ) from None
    except (ValueError, UnicodeError) as error:
        raise CheckFailed(f"the source cannot be compiled: {_short(str(error))}") from None
    return "compiles"


def _parsed(text: str, filename: str) -> Module:
    return cast("Module", compile(text, filename, "exec", PyCF_ONLY_AST, dont_inherit=True))


def _shown(error: SyntaxError) -> str:
    if not error.text or not error.lineno:
        return f", line {error.lineno}" if error.lineno else ""
    return f", line {error.lineno}: {_short(error.text.strip())}"


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
