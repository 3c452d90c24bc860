"""Limits that more than one of client, service, store and sandbox know."""

SOURCE_BYTES = 64 * 1024  # of one grader
REQUEST_THREADS = 1000  # of synchronous scoring, and of a test run
REQUEST_BYTES = 16 * 1024 * 1024  # of a body that is no batch
LINE_BYTES = 4 * 1024 * 1024  # of one thread, unless GRADEBOX_LINE_BYTES says otherwise
TIMEOUT_S = 5.0  # of a grader for one completion, unless it asks for another
MEMORY_MB = 256  # MiB of a grader, unless it asks for another
