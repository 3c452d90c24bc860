"""The packages of an environment, for the processes of the grader alone: the supervisor never imports from there."""

import os
import sys

PLACE = "/usr/lib/environment"
DATA = f"{PLACE}/.data"  # what the environment has beside packages
# Each of a pool of threads that compute would want a processor and memory of its own, and a sandbox has one or two.
_ONE_THREAD = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip


def allow() -> None:
    """Lets this process import them, and find the data beside them.

    They come last, so no module of the guest or the standard library is shadowed.
    """
    sys.path.append(PLACE)
    if os.path.isdir(DATA):
        os.environ["ENVIRONMENT_DATA"] = DATA
        os.environ["NLTK_DATA"] = f"{DATA}:{DATA}/nltk_data"  # nltk looks in both
    for name in _ONE_THREAD:
        os.environ[name] = "1"
