"""The five checks of a grader, one module each, in this order. The first failure ends the run.

    syntax      the source compiles
    structure   it has a top-level `async def grade`
    signature   `grade` has exactly one parameter
    execution   the module body runs and leaves `grade` a coroutine function
    test_run    `grade`, awaited on threads, returns finite numbers

The checks run inside a sandbox, which mounts this package. It uses only the standard library and does not deal with
isolation.
"""

from collections.abc import Callable

from validators import execution, signature, structure, syntax
from validators.candidate import Candidate

# test_run is separate: it needs outcomes, so a grader must have run first.
BEFORE_TEST_RUN: tuple[Callable[[Candidate], str], ...] = (
    syntax.check,
    structure.check,
    signature.check,
    execution.check,
)
