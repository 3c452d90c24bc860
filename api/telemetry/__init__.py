"""Metrics and logs of requests, and the content of /metrics."""
