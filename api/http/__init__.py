"""HTTP itself: the server and its limits, websockets, problems, what holds for every request."""
