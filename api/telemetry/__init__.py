"""What is counted and logged of requests, and what /metrics answers."""
