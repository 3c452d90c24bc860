"""A grader's asks: limits, retries, equal ones, and their answers."""
