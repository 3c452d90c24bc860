"""The limits that the kernel enforces on a sandbox: system calls, memory, processor time, user ids."""
