"""The base classes of errors that keep a process of the service from starting."""


class CannotStart(Exception):
    """A permanent obstacle to starting the process: a restart does not help."""

    exit_code = 5  # of a wrong setting
    what: str
    """A description of the obstacle, which precedes the error message in the log."""


class CannotStartYet(Exception):
    """An obstacle that passes: `runtime.starting.wait_for` waits for its end."""
