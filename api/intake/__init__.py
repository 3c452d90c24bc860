"""Reads request bodies within their limits, without parsing the contents of threads."""
