"""Makes `multiprocessing` fork its processes, whatever start method a grader requests.

The other methods start a Python that would run the zygote as its main module and cannot import the grader.
`forkserver`, the default from Python 3.14 on, also needs a socket. A grader that catches the failure would return a
wrong score.
"""

import sys
from types import ModuleType

_CONTEXTS = "multiprocessing.context"


class ForkAlways:
    """A finder for `sys.meta_path` that changes the start methods after `multiprocessing` has been imported."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        """Delegates to the other finders, and removes itself from them."""
        if name != _CONTEXTS:
            return None
        sys.meta_path.remove(cls)  # type: ignore[arg-type]  # the class itself is the finder
        found = (finder.find_spec(name, path) for finder in sys.meta_path)  # type: ignore[arg-type]  # as the import system gives it
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_fork(module: ModuleType) -> None:
                run(module)
                _fork_always(module)

            spec.loader.exec_module = run_and_fork  # type: ignore[method-assign]  # only of this loader
        return spec


def _fork_always(contexts: ModuleType) -> None:
    fork = contexts._concrete_contexts["fork"]
    contexts._concrete_contexts.update(spawn=fork, forkserver=fork)
    contexts._default_context._default_context = fork
