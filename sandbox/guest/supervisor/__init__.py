"""Process 1 of a sandbox. It runs no user code, alone holds the host's channel, and keeps the deadlines."""
