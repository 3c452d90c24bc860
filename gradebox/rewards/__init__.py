"""Adapters for training frameworks: they convert the frameworks' arguments to threads, and outcomes to rewards.

None of the frameworks is imported. The docstring of each adapter quotes the signature it implements.
"""
