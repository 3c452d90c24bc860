"""Limits shared by at least two of client, service, store and sandbox."""

SOURCE_BYTES, MAX_SOURCE_BYTES = 64 * 1024, 512 * 1024  # of one grader's source; GRADEBOX_SOURCE_BYTES sets it
MIN_SOURCE_BYTES = 1024  # that a service or a project may be limited to
REQUEST_THREADS = 1000  # of synchronous scoring, and of a test run, unless GRADEBOX_SCORE_THREADS is set
REQUEST_BYTES = 16 * 1024 * 1024  # of a request body that is not a batch; of one that grades, see GRADEBOX_SCORE_MB
LINE_BYTES = 4 * 1024 * 1024  # of one thread, unless GRADEBOX_LINE_BYTES is set
TIMEOUT_S, MAX_TIMEOUT_S = 5.0, 120.0  # of a grader, for one completion
ID_CHARACTERS = 256  # of a thread's id
MEMORY_MB, MIN_MEMORY_MB, MAX_MEMORY_MB = 256, 32, 2048  # of a grader
