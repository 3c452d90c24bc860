"""API keys and roles, limits for callers without a known key, and callers that wait for a grader or a thread."""
