"""Outcomes: reading them, retries of those with errors, feedback on them, and the indexes for pages of the table."""
