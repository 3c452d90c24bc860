"""Access control, the concurrency limits of callers, and which external hosts the service may call."""
