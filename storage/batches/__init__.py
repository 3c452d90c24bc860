"""Batches: their records, their threads, recorded scores, and the small form of ended ones."""
