import os
import subprocess
import sys

import pytest

from gradebox.service.machine_memory import memory_bytes
from sandbox.kernel.cgroups import Cgroups

MIB = 1 << 20


def test_the_memory_is_at_most_that_of_the_machine() -> None:
    assert 0 < memory_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_process_in_a_bounded_group_has_what_the_group_may_take() -> None:
    groups = Cgroups.find()
    if groups is None:
        pytest.skip("no control groups can be written here")
    group = groups.make(processes=8)
    try:
        group.allow_memory(128)
        ask = "from gradebox.service.machine_memory import memory_bytes; print(memory_bytes())"
        answer = subprocess.run(group.joined([sys.executable, "-c", ask]), capture_output=True, check=True, text=True)
        assert int(answer.stdout) == 128 * MIB
    finally:
        group.remove()
