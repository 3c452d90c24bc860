"""Process groups in place of sessions, for sandboxes that may not start a session.

A process that should lead a session leads a process group instead. `os.killpg` reaches the same processes, as long as
none of them moves to another group.
"""

import os
from collections.abc import Callable

_NEW_SESSION, _GROUP = 15, 16  # the positions of these arguments of `_posixsubprocess.fork_exec`


def lead() -> None:
    """Makes this process, which leads no group yet, lead a session, or a group if sessions are not permitted."""
    try:
        os.setsid()
    except PermissionError:
        _lead_group()
        _replace_sessions_by_groups()


def _lead_group() -> None:
    os.setpgid(0, 0)


def _replace_sessions_by_groups() -> None:
    import _posixsubprocess as spawning  # `subprocess` takes `fork_exec` from here when a grader imports it

    os.setsid = _lead_group
    spawning.fork_exec = _without_session(spawning.fork_exec)


def _without_session(fork_exec: Callable[..., int]) -> Callable[..., int]:
    def fork_and_exec(*arguments: object) -> int:
        if not arguments[_NEW_SESSION]:
            return fork_exec(*arguments)
        return fork_exec(*arguments[:_NEW_SESSION], False, 0, *arguments[_GROUP + 1 :])

    return fork_and_exec
