"""Pid 1 of a sandbox. Only this process holds the host's channel. It enforces the deadlines and runs no user code."""
