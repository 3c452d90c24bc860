"""Batches: their records, their threads, retries, feedback, and the small form of ended ones."""
