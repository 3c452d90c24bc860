"""Benchmarks: the speed of gradebox, against bare Python in the same run."""
