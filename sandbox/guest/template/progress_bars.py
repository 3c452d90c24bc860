"""Progress bars of tqdm, such as that of loading a model, have no watching thread and no lock between processes.

If the module body left these open, it would have to run anew for each completion.
"""

import sys
from typing import Any

from sandbox.guest.child.after_import import AfterImport


def stay_in_one_thread() -> None:
    """From now on, changes tqdm when it is imported."""
    sys.meta_path.insert(0, AfterImport({"tqdm.std": _change}))


def _change(std: Any) -> None:
    std.TqdmDefaultWriteLock.mp_lock = None  # as tqdm does where the system has no such locks
    std.tqdm.monitor_interval = 0
