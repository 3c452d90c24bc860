"""Limits that hold on both sides of the sandbox and in the store."""

LINE_BYTES = 4 * 1024 * 1024  # of one thread, unless GRADEBOX_LINE_BYTES says otherwise
