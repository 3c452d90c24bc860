"""Graders and their versions."""
