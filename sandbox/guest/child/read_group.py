"""Converts a line of JSON to the threads that a grader of groups receives."""

from copy import deepcopy

from gradebox.group_forms import members
from gradebox.thread import StringThread
from sandbox.guest.child.read_thread import BadInput, ThreadReader, check_id

_ABOVE = 2  # levels of nesting above each thread of a line: the group and its list


class GroupReader:
    """Reads groups, each from the bytes of one line."""

    def __init__(self, reader: ThreadReader) -> None:
        """`reader` defines which lines, and which threads in them, are valid."""
        self._reader = reader

    def read(self, line: bytes) -> list[StringThread]:
        """Reads the threads of a line.

        Raises:
            BadInput: the line is no group; the message has the reason.
        """
        value = self._reader.read_value(line)
        try:
            found = members(value)
        except ValueError as error:
            raise BadInput(f"the line is no group: {error}") from None
        check_id(value)
        threads = [self._thread(each, number) for number, each in enumerate(found)]
        # "completions" share the prompt and the metadata, and a grader may change those of one thread
        return threads if "threads" in value else [deepcopy(thread) for thread in threads]

    def _thread(self, value: object, number: int) -> StringThread:
        try:
            return self._reader.thread_of(value, above=_ABOVE)
        except BadInput as problem:
            raise BadInput(f"thread {number} of the group: {problem}") from None
