"""Compares the values of an uploaded copy with the author's. The copy runs in a process of its own."""
