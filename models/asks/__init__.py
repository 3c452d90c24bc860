"""A grader's asks: parsing, limits, equal ones, and their answers."""
