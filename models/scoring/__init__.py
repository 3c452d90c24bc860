"""Scoring and validation with graders that ask."""
