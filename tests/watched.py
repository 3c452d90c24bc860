"""A backend that remembers what it started, so that a test can look for what is left of it."""

from sandbox.hostile.watched import Watched

__all__ = ["Watched"]
