"""Check 3: `grade` has exactly one parameter, of any name. Unexpected annotations are warnings.

If the parameter is annotated as a list of threads and the return value as a list, `grade` grades groups: completions
that belong together.
"""

import _ast

from validators.candidate import Candidate, CheckFailed

_LISTS = frozenset(("list", "List", "Sequence", "tuple", "Tuple"))
_LONGEST = 1000  # characters of an annotation that is a string


def check(candidate: Candidate) -> str:
    """Checks the parameters of the definition that `structure` found."""
    definition = candidate.definition
    if wrong := wrong_parameters(definition):
        raise CheckFailed(wrong, definition.lineno, definition.col_offset + 1)
    positional = [*definition.args.posonlyargs, *definition.args.args]
    candidate.groups = _takes_groups(positional[0], definition)
    if not candidate.groups:
        candidate.warnings += _warnings(positional[0], definition)
    of_groups = ", a list of threads" if candidate.groups else ""
    return f"takes one parameter, `{positional[0].arg[:100]}`{of_groups}"


def wrong_parameters(definition: _ast.FunctionDef | _ast.AsyncFunctionDef) -> str | None:
    """Why a grader cannot have these parameters, and what to write. None if it can."""
    arguments = definition.args
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [argument.arg for argument in positional]
    names += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    names += [f"{argument.arg} (keyword only)" for argument in arguments.kwonlyargs]
    names += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    if len(names) == len(positional) == 1:
        return None
    if of_trl := trl_form(definition):
        return of_trl
    name = definition.name[:100]
    if names[:2] == ["sample", "item"]:
        return (
            f"`{name}` takes the sample and the item, as OpenAI's graders do: create it by "
            "`client.graders.create.python(…)`, or with `--contract openai` on the command line."
        )
    if names[:1] == ["self"]:
        advice = "A method cannot be uploaded: move it out of its class."
    else:
        advice = (
            "Write `async def grade(thread: StringThread) -> float`, which reads `thread.completion()`, and from "
            "`thread.metadata` what varies by sample."
        )
    listed = ", ".join(names[:8])[:200]
    has = f"{len(names)} parameter{'s' * (len(names) > 1)} ({listed})" if names else "no parameter"
    return f"`{name}` must take exactly one positional parameter, the thread, and has {has}. {advice}"


def trl_form(definition: _ast.FunctionDef | _ast.AsyncFunctionDef) -> str | None:
    """What to write instead of a reward function of TRL's form. None if this has another form."""
    arguments = definition.args
    if all(each.arg != "completions" for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)):
        return None
    return (
        f"`{definition.name[:100]}` takes a list of completions, as TRL's reward functions do, and a grader takes one "
        "thread. Write `async def grade(thread: StringThread) -> float`, which reads `thread.completion()`, and from "
        "`thread.metadata` the columns. The grader's `as_trl_reward()` is the function for TRL."
    )


def _takes_groups(parameter: _ast.arg, definition: _ast.AsyncFunctionDef) -> bool:
    """Whether `grade` takes a list of threads and returns a list of scores.

    Raises:
        CheckFailed: only one of the two annotations is a list.
    """
    name = parameter.arg[:100]
    takes, returns = _in_list(parameter.annotation) == "StringThread", _in_list(definition.returns) is not None
    if takes and not returns:
        raise CheckFailed(
            f"`grade` takes a list of threads, so it returns a list of as many scores, and must say so: write "
            f"`async def grade({name}: list[StringThread]) -> list[float]`",
            definition.lineno,
            definition.col_offset + 1,
        )
    if returns and not takes:
        raise CheckFailed(
            "`grade` says that it returns a list, which a grader does that takes a list of threads: write "
            f"`async def grade({name}: list[StringThread]) -> list[float]`; or, for one thread, "
            f"`async def grade({name}: StringThread) -> float`",
            definition.lineno,
            definition.col_offset + 1,
        )
    return takes


def _warnings(parameter: _ast.arg, definition: _ast.AsyncFunctionDef) -> list[str]:
    warnings = []
    if _annotation(parameter.annotation) != "StringThread":
        warnings.append(f"line {definition.lineno}: annotate the parameter: `{parameter.arg[:100]}: StringThread`")
    if _annotation(definition.returns) not in ("float", "Score"):
        warnings.append(f"line {definition.lineno}: annotate what `grade` returns: `-> float`")
    return warnings


def _in_list(node: _ast.AST | None) -> str | None:
    """The last name of a list's element type, or "" if the element type is not a name. None if this is not a list.

    `list[StringThread]`, `typing.List[gradebox.StringThread]` and `"list[StringThread]"` have the same result.
    """
    node = _unquoted(node)
    if _annotation(node) in _LISTS:
        return ""
    if not isinstance(node, _ast.Subscript) or _annotation(node.value) not in _LISTS:
        return None
    held = node.slice.elts[0] if isinstance(node.slice, _ast.Tuple) and node.slice.elts else node.slice
    return _annotation(held) or ""


def _unquoted(node: _ast.AST | None) -> _ast.AST | None:
    """Parses an annotation that is a string; returns any other annotation unchanged."""
    if not isinstance(node, _ast.Constant) or not isinstance(node.value, str) or len(node.value) > _LONGEST:
        return node
    try:
        parsed = compile(node.value.strip(), "annotation", "eval", _ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return node  # Python does not reject it either
    return parsed.body if isinstance(parsed, _ast.Expression) else node


def _annotation(node: _ast.AST | None) -> str | None:
    """The last name of an annotation: `StringThread`, `gradebox.StringThread` and `"StringThread"` are the same."""
    if isinstance(node, _ast.Name):
        return node.id
    if isinstance(node, _ast.Attribute):
        return node.attr
    if isinstance(node, _ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition(".")[2]
    return None
