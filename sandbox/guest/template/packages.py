"""The packages of an environment. Only the grader's processes import them; the supervisor never does."""

import os
import sys

PLACE = "/usr/lib/environment"
DATA = f"{PLACE}/.data"  # data of the environment besides packages
# Each thread of a compute pool needs a processor and memory, and a sandbox has one or two processors.
_ONE_THREAD = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS",
)  # fmt: skip


def allow() -> None:
    """Lets this process import the packages and find the data besides them.

    They are last in the search path, so they shadow no module of the standard library, or of gradebox with the guest.
    The data comes after them, for packages without a wheel.
    """
    sys.path.append(PLACE)
    if os.path.isdir(DATA):
        sys.path.append(DATA)
        os.environ["ENVIRONMENT_DATA"] = DATA
        os.environ["NLTK_DATA"] = f"{DATA}:{DATA}/nltk_data"  # nltk searches both
    for name in _ONE_THREAD:
        os.environ[name] = "1"
    # Where it is not set, numpy sets it by `os.putenv`, which graders replace by None before they run a completion.
    os.environ["OPENBLAS_MAIN_FREE"] = "1"
    # torch makes this folder. One that the module body leaves in /tmp would cost a new sandbox for each completion.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp"
