"""Makes `multiprocessing` fork its processes, whatever start method a grader requests.

The other methods start a Python that would run the zygote as its main module and cannot import the grader.
`forkserver`, the default from Python 3.14 on, also needs a socket. A grader that catches the failure would return a
wrong score.
"""

from __future__ import annotations

import sys

from sandbox.guest.child.after_import import AfterImport

TYPE_CHECKING = False  # see `after_import`
if TYPE_CHECKING:
    from types import ModuleType


def fork_always() -> None:
    """From now on, `multiprocessing` has these start methods as soon as it is imported."""
    sys.meta_path.insert(0, AfterImport({"multiprocessing.context": _fork_always}))


def _fork_always(contexts: ModuleType) -> None:
    fork = contexts._concrete_contexts["fork"]
    contexts._concrete_contexts.update(spawn=fork, forkserver=fork)
    contexts._default_context._default_context = fork
