"""Check 3: `grade` has exactly one parameter, of any name. Unexpected annotations are warnings."""

import _ast

from validators.candidate import Candidate, CheckFailed


def check(candidate: Candidate) -> str:
    """Counts the parameters of the definition that `structure` found."""
    definition = candidate.definition
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [argument.arg for argument in positional]
    names += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    names += [f"{argument.arg} (keyword only)" for argument in arguments.kwonlyargs]
    names += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    if len(names) != 1 or len(positional) != 1:
        listed = ", ".join(names[:8])[:200]
        has = f"{len(names)} parameters ({listed})" if names else "no parameter"
        hint = " A method cannot be uploaded: move it out of its class." if names[:1] == ["self"] else ""
        raise CheckFailed(
            f"`grade` must take exactly one positional parameter, the thread, and has {has}.{hint} "
            "Put what varies by sample into the thread's metadata.",
            definition.lineno,
            definition.col_offset + 1,
        )
    candidate.warnings += _warnings(positional[0], definition)
    return f"takes one parameter, `{names[0][:100]}`"


def _warnings(parameter: _ast.arg, definition: _ast.AsyncFunctionDef) -> list[str]:
    warnings = []
    if _annotation(parameter.annotation) != "StringThread":
        warnings.append(f"line {definition.lineno}: annotate the parameter: `{parameter.arg[:100]}: StringThread`")
    if _annotation(definition.returns) not in ("float", "Score"):
        warnings.append(f"line {definition.lineno}: annotate what `grade` returns: `-> float`")
    return warnings


def _annotation(node: _ast.expr | None) -> str | None:
    """The last name of an annotation: `StringThread`, `gradebox.StringThread` and `"StringThread"` are the same."""
    if isinstance(node, _ast.Name):
        return node.id
    if isinstance(node, _ast.Attribute):
        return node.attr
    if isinstance(node, _ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition(".")[2]
    return None
