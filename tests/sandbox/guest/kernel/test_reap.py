"""Tests of `reap_all` in a separate process that adopts orphans like a template, because it kills all it may."""

from tests.processes import printed

_START = """
import os, time
from sandbox.guest.kernel import lockdown
from sandbox.guest.kernel.reap import reap_all
lockdown.adopt_orphans()
"""


def test_where_there_is_no_child_nothing_is_found() -> None:
    assert printed(f"{_START}print(reap_all(), reap_all(1))") == "None None\n"


def test_the_status_of_the_child_that_is_asked_for_is_told() -> None:
    source = """
others = [os.fork() or os._exit(3) for _ in range(3)]
child = os.fork() or os._exit(7)
time.sleep(0.2)
print(os.waitstatus_to_exitcode(reap_all(child)))
"""
    assert printed(_START + source) == "7\n"
