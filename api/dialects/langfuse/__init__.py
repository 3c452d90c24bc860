"""Langfuse's code evaluators: their executor, by Lambda's Invoke protocol and by one URL (docs/langfuse.md)."""
