"""Langfuse's code evaluators: its executor, by Lambda's Invoke protocol and at a single URL (docs/langfuse.md)."""
