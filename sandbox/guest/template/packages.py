"""The packages of an environment, for the processes of the grader alone: the supervisor never imports from there."""

import os
import sys

PLACE = "/usr/lib/environment"
# Each of a pool of threads that compute would want a processor and memory of its own, and a sandbox has one or two.
_ONE_THREAD = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip


def allow() -> None:
    """Lets this process import them. They come last, so no module of the guest or the standard library is shadowed."""
    sys.path.append(PLACE)
    for name in _ONE_THREAD:
        os.environ[name] = "1"
