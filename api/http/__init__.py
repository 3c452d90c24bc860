"""The HTTP layer: the server and its limits, websockets, problems, and what applies to every request."""
