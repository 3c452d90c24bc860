"""Weave's RemoteScorer: each grader is a scorer at `/weave/v1/{project}/{grader}` (docs/weave.md)."""
