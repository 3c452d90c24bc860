"""The five checks, a file each. They stop at the first that fails.

    syntax      the source compiles
    structure   it has a top-level `async def grade`
    signature   of exactly one parameter
    execution   the module body runs, and leaves a coroutine function
    test_run    which, awaited on threads, gives finite numbers

They know nothing of how they came to be isolated. Standard library only: they are mounted into the sandbox.
"""

from collections.abc import Callable

from validators import execution, signature, structure, syntax
from validators.candidate import Candidate

# test_run is not here: it judges outcomes, and needs somebody who can grade.
BEFORE_TEST_RUN: tuple[tuple[str, Callable[[Candidate], str]], ...] = (
    ("syntax", syntax.check),
    ("structure", structure.check),
    ("signature", signature.check),
    ("execution", execution.check),
)
