"""Where a sandbox may begin no session of its own, process groups take their place: what is asked to lead a session
leads a group then. `os.killpg` reaches the same processes, as long as none of them moves to another group.
"""

import os
from collections.abc import Callable

_NEW_SESSION, _GROUP = 15, 16  # the places of these arguments of `_posixsubprocess.fork_exec`


def lead() -> None:
    """Makes this process, which leads no group yet, the first of a session; or of a group, where it may not."""
    try:
        os.setsid()
    except PermissionError:
        _lead_group()
        _put_groups_in_their_place()


def _lead_group() -> None:
    os.setpgid(0, 0)


def _put_groups_in_their_place() -> None:
    import _posixsubprocess as spawning  # what `subprocess` takes it from, when a grader imports it

    os.setsid = _lead_group
    spawning.fork_exec = _without_session(spawning.fork_exec)


def _without_session(fork_exec: Callable[..., int]) -> Callable[..., int]:
    def fork_and_exec(*arguments: object) -> int:
        if not arguments[_NEW_SESSION]:
            return fork_exec(*arguments)
        return fork_exec(*arguments[:_NEW_SESSION], False, 0, *arguments[_GROUP + 1 :])

    return fork_and_exec
