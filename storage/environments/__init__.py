"""Environments: their records, builds, contents and data."""
