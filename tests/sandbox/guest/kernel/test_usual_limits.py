import _thread
import os
import resource
import threading

import pytest

from sandbox.guest.kernel.usual_limits import accept_usual_limits


def test_pools_fit_into_a_sandbox_on_a_machine_with_many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in ((resource, "setrlimit"), (os, "nice sched_setaffinity"), (_thread, "stack_size")):
        for name in names.split():
            monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(threading, "stack_size", threading.stack_size)
    for name in ("cpu_count", "process_cpu_count"):
        if hasattr(os, name):
            monkeypatch.setattr(os, name, lambda: 192)
    accept_usual_limits()
    assert os.cpu_count() == 4
    assert getattr(os, "process_cpu_count", os.cpu_count)() == 4
