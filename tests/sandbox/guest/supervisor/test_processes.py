from tests.processes import printed

# `os.kill` does nothing, so the child is to the supervisor like one that hangs in the kernel.
_HANGS = """
import os, time
from sandbox.guest.protocol.grader_limits import GraderLimits
from sandbox.guest.supervisor import processes

kill, os.kill = os.kill, lambda pid, signal: None
processes._EXIT_S = 0.2
processes.make_note = lambda: -1
pid = os.fork()
if pid == 0:
    time.sleep(60)
    os._exit(0)
made = processes.GraderProcesses(GraderLimits(*[0] * len(GraderLimits._fields)), b"", -1)
made._template = pid
began = time.monotonic()
try:
    STATEMENT
except processes.Lost as lost:
    print("lost:", lost)
print(made.alive, time.monotonic() - began < 5)
kill(pid, 9)
"""


def _run(statement: str) -> list[str]:
    return printed(_HANGS.replace("STATEMENT", statement)).splitlines()


def test_a_killed_process_that_does_not_exit_is_not_waited_for_long() -> None:
    assert _run("made.end()") == ["lost: a killed process has not exited within 0.2 s", "False True"]
    assert _run("print(made._reap_template() == processes.NO_STATUS)") == ["True", "False True"]
