"""Scoring and checking with one grader in a sandbox; all that a sandbox sends is checked here."""
