"""Why a process of the service cannot start."""


class CannotStart(Exception):
    """Something is in the way that does not pass by itself, so that starting the process again is no use."""

    exit_code: int
    what: str
    """What is wrong, before the words of the one error."""
